"""The pools that may take a request: those with room in their queues, and what they have to do."""

from collections.abc import Sequence

from serving.gateway.backends import Backend
from serving.gateway.errors import RETRY_SOON, ApiError, unavailable
from serving.gateway.replicas import ReplicaPool, load
from serving.gateway.table import Arm


def look_at(pools: Sequence[ReplicaPool], served_name: str, max_queued: int) -> list[Backend]:
    """The kinds of these pools as they are now, for one version."""
    seen = []
    for pool in pools:
        takers = [state for state in pool if state.takes(served_name)]
        total, room = load(takers)
        seen.append(Backend(pool[0].kind, bool(takers), total / max(room, 1), is_full(total, room, max_queued)))
    return seen


def open_pools(pools: Sequence[ReplicaPool], arm: Arm, max_queued: int) -> Sequence[ReplicaPool]:
    """Those of the pools that take one more request, in their order.

    Raises:
        ApiError: 429, the queues of all that could answer are full.
    """
    refusal: tuple[int, int] | None = None
    takes: list[ReplicaPool] = []
    for pool in pools:
        total, room = load(pool)
        if is_full(total, room, max_queued):
            refusal = refusal or (total, room)
        else:
            takes.append(pool)
    if refusal and not any(state.takes(arm.served_name) for pool in takes for state in pool):
        total, room = refusal
        message = f"{total} requests are in flight where {room} run at once, and no more than {max_queued} may wait"
        raise ApiError(429, message, kind="overload", code="rate_limit_exceeded", headers=RETRY_SOON)
    return takes


def is_full(total: int, room: int, max_queued: int) -> bool:
    return room > 0 and total - room >= max_queued


def only(kind: str, arm: Arm) -> Sequence[ReplicaPool]:
    """The pool of this kind.

    Raises:
        ApiError: 503, no well engine of it has the version.
    """
    able = [pool for pool in arm.pools if any(state.takes(arm.served_name) for state in pool)]
    if found := [pool for pool in able if pool[0].kind == kind]:
        return found
    there = ", ".join(pool[0].kind for pool in able) or "no other kind does either"
    raise unavailable(f"no {kind} engine answers for {arm.served_name} at the moment; what does: {there}")
