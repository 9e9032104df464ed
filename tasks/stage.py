"""A Prefect task that is also timed, and that shows in Prefect's pages when its result was a kept one."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed, State

from tasks import progress
from turnout.errors import TurnoutError

P = ParamSpec("P")
R = TypeVar("R")


def stage(name: str, *, retries: int = 0) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a plain function the pipeline's stage `name`.

    Prefect's cache is off: `tasks.cache` decides what counts as done. A failure is tried again only
    where another try can help (see `can_pass`).
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def timed(*args: P.args, **kwargs: P.kwargs) -> Any:
            with progress.timed(name) as run:
                result = function(*args, **kwargs)
            return Completed(name="Cached", message="same inputs", data=result) if run.cached else result

        prefect_task = task(
            name=name,
            retries=retries,
            retry_delay_seconds=2,
            retry_condition_fn=lambda _task, _run, state: can_pass(state),
            cache_policy=NO_CACHE,
            persist_result=False,
        )(timed)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            outcome: Any = prefect_task(*args, **kwargs)
            return outcome.result() if isinstance(outcome, State) else outcome

        return call

    return decorate


def can_pass(state: State[Any]) -> bool:
    """Whether the failure in `state` may pass by itself: a connection may, a refused adapter cannot."""
    error = state.result(raise_on_failure=False)
    return isinstance(error, TurnoutError) and error.may_pass
