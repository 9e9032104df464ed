"""Turnout's training stage against a plain TRL script with the same settings, in turns, on the bundled base.

    python benchmarks/train_speed.py [--steps 15] [--rounds 2] [--out train_speed.json]

Each run is a process of its own, one at a time. The figure is the median of tokens a second over a run's steps but
the first three; the ratio is that of the medians over the rounds. The goal is at least 0.95.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE))

from data.config import DataConfig  # noqa: E402
from data.prepare import prepare  # noqa: E402
from tasks.bases import resolve_base  # noqa: E402
from tasks.config import TrainConfig  # noqa: E402
from tasks.training import train  # noqa: E402
from turnout.references import Base, Dataset, from_json, to_json  # noqa: E402

WARM_UP = 3


def plain_trl(base: Base, dataset: Dataset, config: TrainConfig) -> list[float]:
    """What one would write by hand: tokens a second of each step. `num_tokens` is TRL's own count."""
    import time

    import pyarrow.parquet
    import torch
    from datasets import Dataset as Rows
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig, TrainerCallback
    from trl import SFTConfig, SFTTrainer

    cuda = torch.cuda.is_available()
    # Without bf16 instructions a bf16 step takes minutes: nobody would leave it at that.
    dtype = torch.bfloat16 if cuda or torch.ops.mkldnn._is_mkldnn_bf16_supported() else torch.float32
    quantisation = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=config.double_quantisation,
        bnb_4bit_compute_dtype=dtype,
    )
    model = AutoModelForCausalLM.from_pretrained(
        base.path, quantization_config=quantisation, dtype=dtype, device_map={"": 0} if cuda else "cpu"
    )
    table = pyarrow.parquet.read_table(dataset.train_file, columns=["input_ids", "loss_mask"])
    rows = [{"input_ids": row["input_ids"], "completion_mask": row["loss_mask"]} for row in table.to_pylist()]
    speeds: list[float] = []

    class Clock(TrainerCallback):
        began = 0.0
        seconds = 0.0
        tokens = 0.0

        def on_step_begin(self, args, state, control, **kwargs):  # type: ignore[no-untyped-def]
            self.began = time.perf_counter()

        def on_step_end(self, args, state, control, **kwargs):  # type: ignore[no-untyped-def]
            self.seconds = time.perf_counter() - self.began

        def on_log(self, args, state, control, logs, **kwargs):  # type: ignore[no-untyped-def]
            if "loss" in logs:
                speeds.append((logs["num_tokens"] - self.tokens) / self.seconds)
                self.tokens = logs["num_tokens"]

    with tempfile.TemporaryDirectory() as folder:
        trainer = SFTTrainer(
            model=model,
            args=SFTConfig(
                output_dir=folder,
                seed=config.seed,
                learning_rate=config.learning_rate,
                max_steps=config.max_steps or -1,
                per_device_train_batch_size=config.batch_size,
                gradient_checkpointing=config.gradient_checkpointing,
                bf16=dtype == torch.bfloat16,
                use_cpu=not cuda,
                completion_only_loss=True,
                logging_steps=1,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
            ),
            train_dataset=Rows.from_list(rows),
            processing_class=AutoTokenizer.from_pretrained(base.path),
            peft_config=LoraConfig(
                r=config.lora_rank,
                lora_alpha=config.lora_alpha,
                lora_dropout=config.lora_dropout,
                target_modules="all-linear",
                task_type="CAUSAL_LM",
            ),
            callbacks=[Clock()],
        )
        for parameter in trainer.model.parameters():
            if parameter.requires_grad:
                parameter.data = parameter.data.to(dtype)
        trainer.train()
    return speeds


def by_turnout(base: Base, dataset: Dataset, config: TrainConfig) -> list[float]:
    speeds: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        train(
            dataset,
            base,
            config,
            run_folder=Path(folder),
            on_metrics=lambda line: speeds.append(line["tokens_per_second"]),
        )
    return speeds


def by_plain_trl(base: Base, dataset: Dataset, config: TrainConfig) -> list[float]:
    job = {"base": to_json(base), "dataset": to_json(dataset), "config": config.model_dump(mode="json")}
    command = [sys.executable, __file__, "--plain", json.dumps(job)]
    # The same waiting policy as Turnout's children, so that only the code differs.
    env = {"GOMP_SPINCOUNT": "10000"} | os.environ | {"PYTHONPATH": str(HERE), "TRANSFORMERS_VERBOSITY": "error"}
    env |= {"TQDM_DISABLE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=env).stdout
    return list(json.loads(output.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--out", type=Path, default=Path("train_speed.json"))
    parser.add_argument("--plain", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.plain:
        job = json.loads(args.plain)
        base, dataset = from_json(Base, job["base"]), from_json(Dataset, job["dataset"])
        print(json.dumps(plain_trl(base, dataset, TrainConfig(**job["config"]))))
        return
    base = resolve_base("bundled")
    config = TrainConfig(learning_rate=1e-3, lora_alpha=32, batch_size=args.batch_size, max_steps=args.steps)
    medians: dict[str, list[float]] = {"plain": [], "turnout": []}
    with tempfile.TemporaryDirectory() as folder:
        dataset = prepare(DataConfig(max_length=256), base, Path(folder) / "data")
        for turn in range(args.rounds):
            order = [("plain", by_plain_trl), ("turnout", by_turnout)]
            for name, run in order if turn % 2 == 0 else reversed(order):
                speeds = run(base, dataset, config)[WARM_UP:]
                medians[name].append(statistics.median(speeds))
                print(f"{name:8} {medians[name][-1]:8.1f} tokens/s, steps {min(speeds):.1f} to {max(speeds):.1f}")
    plain, ours = (statistics.median(medians[name]) for name in ("plain", "turnout"))
    result = {"plain_tokens_per_second": plain, "turnout_tokens_per_second": ours, "ratio": ours / plain}
    print(f"ratio    {ours / plain:8.2f}")
    args.out.write_text(json.dumps(result | {"medians": medians, "steps": args.steps}, indent=2) + "\n")


if __name__ == "__main__":
    main()
