"""Whether a running engine can serve an adapter, or another one could be started."""

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from serving.config import ServingConfig
from serving.kinds import kind_of
from serving.machine import this_machine
from serving.modules import leaf, module_names
from serving.ports import require_free_port
from serving.records import Engine, running_engines, serving_engines
from turnout.errors import EngineError
from turnout.paths import Home
from turnout.references import Base

REPLACE_IT = "Stop it first (turnout down), or set serving.mode=restart."


def suits(engine: Engine, base: Base, rank: int, config: ServingConfig, targets: Iterable[str] = ()) -> str | None:
    """Why `engine` cannot serve adapters of `rank` on `base` as `config` wants it; None where it can.

    Args:
        targets: modules that the adapters change.
    """
    if engine.base.sha256 != base.sha256:
        return (
            f"the engine at {engine.url} (process {engine.pid}) serves {engine.base.name} ({engine.base.sha256[:12]}), "
            f"not {base.name} ({base.sha256[:12]})"
        )
    own = module_names(Path(base.path))
    missing = sorted({leaf(name) for name in targets} & own - set(engine.targets))
    if missing:
        return (
            f"the engine at {engine.url} adapts {', '.join(engine.targets)} only, this adapter {', '.join(missing)} too"
        )
    return _settings_reason(engine, rank, config)


def check_place(home: Home, config: ServingConfig, rank: int, original: Base | None = None) -> None:
    """Check in milliseconds that an engine of the first kind for adapters of `rank` runs here, or could be started.

    Args:
        original: the base that they are trained on, where it is known by now.

    Raises:
        EngineError: the running one does not suit, and `serving.mode` is `hot`.
        ResourceShort: the port is taken by something else.
    """
    engines = serving_engines(home, kind=config.engines[0])
    if not engines:
        if config.port not in {urlsplit(engine.url).port for engine in running_engines(home)}:
            require_free_port(config.host, config.port)
    elif config.mode == "hot":
        engine = min(engines, key=lambda each: _base_reason(each, config, original) is not None)
        reason = _base_reason(engine, config, original) or _settings_reason(engine, rank, config)
        if reason:
            raise EngineError(reason, REPLACE_IT)


def _base_reason(engine: Engine, config: ServingConfig, original: Base | None) -> str | None:
    parity = engine.base.parity_of is not None
    if parity != (config.base == "parity"):
        kind = "the parity copy of a base" if parity else "a base as published"
        return f"the engine at {engine.url} serves {engine.base.name}, {kind}, and serving.base={config.base} is wanted"
    if original and original.sha256 != (engine.base.parity_of or engine.base.sha256):
        return f"the engine at {engine.url} serves {engine.base.name} (of {engine.base.id}), not {original.name}"
    return None


def _settings_reason(engine: Engine, rank: int, config: ServingConfig) -> str | None:
    at = f"the engine at {engine.url}"
    if rank > engine.max_lora_rank:
        return f"{at} takes adapters up to rank {engine.max_lora_rank}, and this one has rank {rank}"
    if config.max_model_len > engine.config.max_model_len:
        context = engine.config.max_model_len
        return f"{at} takes {context} tokens a request, and serving.max_model_len={config.max_model_len} is wanted"
    wanted = kind_of(engine.kind).computes_on(config, this_machine())
    return None if wanted == engine.computes_on else f"{at} computes on {engine.computes_on}, and {wanted} is wanted"
