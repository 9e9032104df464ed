"""Results of stages that are kept under the digests of their inputs.

Prefect's own cache hands out a path whose file is gone, and hashes a path's name instead of its bytes. Here a
result counts only while its files are there, and two runs that want the same result make it once.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from tasks import progress
from turnout.digests import json_sha256
from turnout.files import exclusive, read_state, write_json
from turnout.paths import Home
from turnout.references import to_json

T = TypeVar("T")


def key_of(inputs: dict[str, Any]) -> str:
    """The name of a result: a digest of what it depends on."""
    return json_sha256(inputs)[:32]


def cached(
    home: Home, stage: str, inputs: dict[str, Any], kind: type[T], make: Callable[[str], T], intact: Callable[[T], bool]
) -> T:
    """The result of `stage` for `inputs`: the kept one while it is `intact`, else what `make(key)` returns."""
    key = key_of(inputs)
    record = home.stages / stage / f"{key}.json"
    with exclusive(home.lock(f"{stage}-{key}")):
        kept = read_state(record, kind)
        if kept is not None and intact(kept):
            progress.current().cached = True
            return kept
        result = make(key)
        write_json(record, to_json(result))
        return result
