"""What every bench is given."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from data.config import DataConfig
from serving.config import EngineKind, ServingConfig
from tasks.bench.adapter import BenchAdapter
from tasks.bench.engines import Engines, Wanted
from tasks.bench.load_generator import LoadGenerator
from tasks.bench.prices import ARTICLES, Prices
from turnout.paths import Home
from turnout.references import Base

UNCACHED = "--no-enable-prefix-caching"
"""Repeated prompts would be answered from the prefix cache, which no two different users' prompts are."""
_SEQUENCES = 256
"""Requests that an engine has room for at a time, if the preset does not say."""


@dataclass(frozen=True)
class BenchSetting:
    """Where and how a bench runs.

    `base` is what the preset serves, `original` that base as it was published; `data` is where the preset's rows come
    from. `quick` asks for the smallest load that still shows the effect. `users` are the numbers of clients at a time.
    """

    home: Home
    base: Base
    original: Base
    serving: ServingConfig
    data: DataConfig
    engines: Engines
    load: LoadGenerator
    adapter: BenchAdapter | None = None
    quick: bool = False
    users: tuple[int, ...] = (1, 10, 50)
    progress: Callable[[str], None] = lambda text: None
    prices: Prices = ARTICLES

    def engine(self, *, kind: EngineKind = "vllm", base: Base | None = None, **changes: Any) -> Wanted:
        """An engine as the preset serves, but for `changes` of its settings; without vLLM's prefix cache.

        `extra_args` among `changes` are added to the preset's. Where `max_num_seqs` is not among them, all users fit.
        """
        changes.setdefault("max_num_seqs", max(self.serving.max_num_seqs or _SEQUENCES, *self.users))
        extra = (*self.serving.extra_args, *changes.pop("extra_args", ()))
        if kind == "vllm" and not any("prefix-caching" in word for word in extra):
            extra = (*extra, UNCACHED)
        values = self.serving.model_dump() | changes | {"extra_args": extra, "replicas": 1, "engines": (kind,)}
        return Wanted(base or self.base, ServingConfig.model_validate(values), kind, self.adapter)

    @property
    def model(self) -> str:
        """What requests ask for: the adapter where there is one, else the base."""
        return self.adapter.name if self.adapter else self.base.name
