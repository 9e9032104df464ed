"""Everything that can be refused before a server, an engine or a training is started, in seconds."""

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from data.check import check_source
from data.config import DataConfig
from data.prepare import prepare
from registry.reach import reachable
from serving.config import ServingConfig
from serving.fit import check_place
from tasks.bases import base_on_disk, quick_check_base
from tasks.config import GateConfig, TrainConfig
from tasks.gate.grading import judge_key
from tasks.memory import require_memory
from tasks.targets import check_targets, linear_layers
from turnout.errors import ResourceShort
from turnout.paths import Home, cache
from turnout.references import Base

HOME_BYTES = 500_000_000
"""Room for checkpoints, the adapter, its registered and its served copy, and logs; large ranks want more."""
SHORT_ROW = 16
"""Tokens of a row that no data is shorter than."""
CACHE_BYTES = 1_200_000_000
"""Room for the bundled base and its parity copy, while they are made."""


def preflight(
    *,
    home: Home,
    base: str,
    data: DataConfig,
    train: TrainConfig,
    serving: ServingConfig,
    gate: GateConfig | None = None,
    others: Iterable[TrainConfig] = (),
) -> None:
    """Check the rows, the base, the judge's key, the registry, the disk, and that an engine can be had for the adapter.

    `others` are the further trainings of a sweep.

    Raises:
        BadInput: the data, the base's name, a target module, or a key that is not set.
        RegistryUnavailable: MLflow does not answer.
        ResourceShort: the disk is nearly full, the base does not fit into memory, or the engine's port is taken.
        EngineError: the running engine does not suit, and `serving.mode` forbids to start another.
    """
    check_source(data)
    quick_check_base(base)
    if gate and gate.judge:
        judge_key(gate.judge)
    require_disk(home.root, HOME_BYTES, "TURNOUT_HOME")
    if base == "bundled" and not (cache() / "parity").exists():
        require_disk(cache(), CACHE_BYTES, "TURNOUT_CACHE")
    reachable(home)
    found = base_on_disk(base)
    for each in (train, *others):
        check_place(home, serving, each.lora_rank, found)
        if found:
            _check_training(found, each)
    if found:
        _check_rows(found, data)


def _check_training(base: Base, train: TrainConfig) -> None:
    """What can be checked only with the base at hand; otherwise the stages find it."""
    check_targets(train.target_modules, linear_layers(base.path), base.name)
    # The rows' lengths are not known here: one short row is the least that any run needs.
    require_memory(base.path, train.model_copy(update={"batch_size": 1, "packing": False}), SHORT_ROW)


def _check_rows(base: Base, data: DataConfig) -> None:
    if data.on_too_long == "refuse":
        with tempfile.TemporaryDirectory() as folder:
            prepare(data, base, Path(folder) / "rows")


def require_disk(folder: Path, least: int, variable: str) -> None:
    """Raises ResourceShort when the disk that holds `folder` has fewer than `least` bytes free."""
    place = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(place).free
    if free < least:
        raise ResourceShort(
            f"{place} has {free / 1e6:,.0f} MB free, and a run needs {least / 1e6:,.0f} MB",
            f"Free some space, or set {variable} to a folder on another disk.",
        )
