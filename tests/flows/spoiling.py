"""What spoils a candidate: its weights, its settings, its rows, its base."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

from tests.flows.workbench import Candidate
from turnout.digests import ADAPTER_FILES


def renamed_modules(it: Candidate) -> Candidate:
    from safetensors.torch import load_file, save_file

    weights = {name.replace("q_proj", "no_such_proj"): value for name, value in load_file(it.weights).items()}
    save_file(weights, it.weights)
    return it.as_trained()


def half_of_the_layers(it: Candidate) -> Candidate:
    return it.with_weights(lambda name, value: value if re.search(r"layers\.\d\.", name) else None)


def of_a_narrower_base(it: Candidate) -> Candidate:
    return it.with_weights(lambda name, value: value[:, :64] if "lora_A" in name else value[:64])


def one_nan(it: Candidate) -> Candidate:
    def spoilt(name: str, value: object) -> object:
        if name.endswith("layers.3.mlp.up_proj.lora_B.weight"):
            value[0, 0] = float("nan")  # type: ignore[index]
        return value

    return it.with_weights(spoilt)


def cut_off(it: Candidate) -> Candidate:
    it.weights.write_bytes(it.weights.read_bytes()[:500_000])
    return it.as_trained()


def broken_settings(it: Candidate) -> Candidate:
    (it.folder / ADAPTER_FILES[0]).write_text('{"r": 16,')
    return it.as_trained()


def without_ends(it: Candidate, *sides: str) -> Candidate:
    """Trained on rows whose answers lack their last token."""
    import pyarrow as pa
    import pyarrow.parquet

    folder = Path(shutil.copytree(it.dataset.path, it.folder.with_name("rows")))
    for side in sides:
        file = folder / f"{side}.parquet"
        table = pyarrow.parquet.read_table(file)
        for name in ("input_ids", "loss_mask"):
            place, field = table.schema.get_field_index(name), table.schema.field(name)
            cut = pa.array([row[:-1] for row in table[name].to_pylist()], field.type)
            table = table.set_column(place, field, cut)
        pyarrow.parquet.write_table(table, file)
    return replace(it, dataset=replace(it.dataset, path=str(folder)))


def flip_a_bit(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def edited(base: Path, folder: Path) -> Path:
    """A base's folder with the same files but for its chat template."""
    folder.mkdir(parents=True)
    for file in base.iterdir():
        (folder / file.name).symlink_to(file)
    template = folder / "chat_template.jinja"
    text = template.read_text("utf-8")
    template.unlink()
    template.write_text(text.replace("<|im_start|>", "<|im_start|> "), "utf-8")
    return folder
