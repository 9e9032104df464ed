"""Trains a LoRA adapter on an NF4 base: the child process of `tasks.training`, or on its own
`python -m tasks.train JOB.json`. Needs neither Prefect nor MLflow."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tasks.adapter_folder import save_adapter
from tasks.checkpoints import cut_metrics, last_complete, read_metrics, step_of
from tasks.children import main, quieten
from tasks.config import TrainConfig, train_settings
from tasks.targets import check_targets
from turnout.digests import adapter_files, adapter_sha256, json_sha256
from turnout.errors import TrainingFailed
from turnout.files import exclusive
from turnout.references import Adapter, Base, Dataset, from_json

LOCK_WAIT_S = 10.0


def run(job: dict[str, Any]) -> Adapter:
    quieten()
    folder = Path(job["run_folder"])
    with _sole_owner(folder):
        return train_here(
            from_json(Dataset, job["dataset"]), from_json(Base, job["base"]), TrainConfig(**job["config"]), folder
        )


def train_here(dataset: Dataset, base: Base, config: TrainConfig, run_folder: Path) -> Adapter:
    """Train in this process, from the last whole checkpoint in `run_folder` if there is one.

    Raises:
        BadInput: a target module that the base does not have.
        TrainingFailed: a step, or the adapter, that shows that nothing is learned.
    """
    from tasks.quantise import linear_4bit, load_nf4

    began = time.monotonic()
    checkpoint = last_complete(run_folder / "checkpoints")
    lines = cut_metrics(run_folder, step_of(checkpoint) if checkpoint else 0)
    model = load_nf4(base.path, config.double_quantisation)
    targets = check_targets(config.target_modules, linear_4bit(model), base.name)
    tokens = max((line["tokens"] for line in lines if "tokens" in line), default=0)
    trainer = make_trainer(model, targets, dataset, base, config, run_folder, tokens)
    print(f"ready to train after {time.monotonic() - began:.1f} s", flush=True)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    save_adapter(trainer.model, base.id, run_folder / "adapter")
    return _reference(trainer, base, config, run_folder)


def make_trainer(
    model: Any,
    targets: list[str],
    dataset: Dataset,
    base: Base,
    config: TrainConfig,
    run_folder: Path,
    tokens_before: int,
) -> Any:
    from peft import LoraConfig

    from data.tokens import load_tokenizer
    from tasks.quantise import compute_dtype
    from tasks.trainer import AdapterTrainer
    from tasks.training_callback import StepWatch
    from tasks.training_rows import rows

    tokenizer = load_tokenizer(base.path)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    trainer = AdapterTrainer(
        model=model,
        args=_arguments(dataset, config, run_folder / "checkpoints"),
        train_dataset=rows(dataset.train_file),
        eval_dataset=rows(dataset.validation_file) if config.evaluate_each_epoch else None,
        processing_class=tokenizer,
        peft_config=LoraConfig(
            r=config.lora_rank,
            lora_alpha=config.lora_alpha,  # type: ignore[arg-type]  # peft takes any number
            lora_dropout=config.lora_dropout,
            target_modules=targets,
            task_type="CAUSAL_LM",
        ),
    )
    trainer.add_callback(StepWatch(run_folder, tokens_before, lambda: trainer.tokens_seen))
    trainable = [parameter for parameter in trainer.model.parameters() if parameter.requires_grad]
    if not trainable:
        raise TrainingFailed("the model has no trainable parameter", "Check train.target_modules.")
    for parameter in trainable:  # TRL makes them bf16 whatever the machine computes in
        parameter.data = parameter.data.to(compute_dtype())
    return trainer


def _arguments(dataset: Dataset, config: TrainConfig, output: Path) -> Any:
    import torch
    from trl import SFTConfig

    from tasks.quantise import compute_dtype

    return SFTConfig(
        output_dir=str(output),
        seed=config.seed,
        data_seed=config.seed,
        learning_rate=config.learning_rate,
        lr_scheduler_type=config.lr_scheduler,
        warmup_steps=config.warmup_steps,
        weight_decay=config.weight_decay,
        max_grad_norm=config.max_grad_norm,
        num_train_epochs=config.epochs,
        max_steps=config.max_steps or -1,
        per_device_train_batch_size=config.batch_size,
        per_device_eval_batch_size=config.batch_size,
        gradient_accumulation_steps=config.gradient_accumulation,
        gradient_checkpointing=config.gradient_checkpointing,
        bf16=compute_dtype() == torch.bfloat16,
        use_cpu=not torch.cuda.is_available(),
        packing=config.packing,
        eval_packing=False,
        # Rows are tokenised and their lengths checked already; TRL still has to pack them.
        max_length=max(config.packed_length, dataset.longest) if config.packing else None,
        dataset_kwargs=None if config.packing else {"skip_prepare_dataset": True},
        eval_strategy="epoch" if config.evaluate_each_epoch else "no",
        save_strategy="steps",
        save_steps=config.checkpoint_every_steps,
        save_total_limit=2,
        logging_steps=1,
        logging_nan_inf_filter=False,  # it would hide a NaN loss behind the average of the others
        report_to="none",
        disable_tqdm=True,
    )


def _reference(trainer: Any, base: Base, config: TrainConfig, run_folder: Path) -> Adapter:
    from tasks.machine import hardware, libraries, peak_memory_bytes

    folder = run_folder / "adapter"
    lora = trainer.model.peft_config["default"]
    steps = [line for line in read_metrics(run_folder) if "loss" in line]
    last = [line["loss"] for line in steps[-10:]]
    trainable, total = trainer.model.get_nb_trainable_parameters()
    return Adapter(
        path=str(folder),
        adapter_sha256=adapter_sha256(folder),
        bytes=sum(file.stat().st_size for file in adapter_files(folder)),
        rank=lora.r,
        alpha=lora.lora_alpha,
        dropout=lora.lora_dropout,
        target_modules=tuple(sorted(lora.target_modules)),
        base_sha256=base.sha256,
        train_digest=json_sha256(train_settings(config)),
        trainable_params=trainable,
        total_params=total,
        train_loss=sum(last) / len(last),
        steps=trainer.state.global_step,
        train_seconds=round(sum(line["seconds"] for line in steps), 2),
        hardware=hardware(),
        libraries=libraries(),
        peak_memory_bytes=peak_memory_bytes(),
    )


@contextmanager
def _sole_owner(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; a predecessor whose parent died gets a moment to end."""
    deadline = time.monotonic() + LOCK_WAIT_S
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(exclusive(folder / "training.lock", wait=False))
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TrainingFailed(
                        f"another training is running in {folder}", "Wait for it, or end it and run the command again."
                    ) from None
                time.sleep(0.2)
        yield


if __name__ == "__main__":
    main(run)
