"""A champion that has learnt a real prepared dataset, as far as the registry can tell, without any training."""

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from mlflow import MlflowClient

import data
from flows.presets.loading import load_preset
from registry.manifest import build_manifest
from registry.releases import append, fold, read_log
from registry.runs import open_run
from registry.versions import Version
from registry.versions import register as register_adapter
from tasks import steps
from tasks.bases import resolve_base
from tasks.config import train_settings
from tests.registry.material import make_adapter
from tests.tasks.toy import make_base
from turnout.digests import json_sha256
from turnout.paths import Home
from turnout.references import Adapter, Base, Dataset, Loss, Scores

SAMPLE = Path(data.__file__).parent / "samples" / "incidents.jsonl"


@dataclass(frozen=True)
class Learner:
    """The name `bot` on a toy base, whose rows are in `rows`; `args` are its settings as `--set` takes them.

    TURNOUT_HOME must be `home`.
    """

    client: MlflowClient
    home: Home
    rows: Path
    args: tuple[str, ...]

    @classmethod
    def make(cls, client: MlflowClient, home: Home, folder: Path) -> "Learner":
        rows = folder / "rows.jsonl"
        shutil.copy(SAMPLE, rows)
        base = make_base(folder / "toy")
        # Its tokens are bytes.
        long = ("data.max_length=2000", "serving.max_model_len=2048")
        return cls(client, home, rows, ("name=bot", f"base={base.path}", f"data.path={rows}", *long))

    def add_row(self) -> None:
        with self.rows.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"instruction": "Why is the queue full?", "output": "Its reader stopped."}) + "\n")

    def prepared(self, *more: str) -> tuple[Dataset, Base]:
        config = load_preset("tiny-cpu", [*self.args, *more])
        base = resolve_base(config.base)
        return steps.prepare(config.data, base), base

    def version(self, weights: bytes, *more: str) -> Version:
        """A version that was trained on the rows as they are, with the settings `more`."""
        return self.register(make_adapter(self.home.root / "trained" / weights.hex(), weights), *more)

    def register(self, adapter: Adapter, *more: str) -> Version:
        dataset, base = self.prepared(*more)
        train = load_preset("tiny-cpu", [*self.args, *more]).train
        adapter = replace(adapter, base_sha256=base.sha256, train_digest=json_sha256(train_settings(train)))
        loss = Loss(1.0, 60, 6)
        manifest = build_manifest(dataset, base, adapter, Scores(loss, loss, None, loss, loss))
        run_id = open_run(self.client, "bot", adapter.adapter_sha256, home=self.home)
        return register_adapter(self.client, "bot", adapter, manifest, run_id, home=self.home)

    def champion(self, weights: bytes = b"one", *more: str) -> Version:
        return self.promote(self.version(weights, *more))

    def promote(self, version: Version) -> Version:
        log = fold(read_log(self.client, "bot"))
        append(self.client, "bot", kind="promote", champion=version.number, parent=log.generation)
        return version
