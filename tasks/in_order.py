"""Runs mapped tasks one after the other, in the flow's own thread.

Each training wants the whole device. A pool of one thread would keep the order too, but Ctrl-C reaches the main
thread alone, which would then wait for the training that is under way in the other.
"""

from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any
from uuid import UUID, uuid4

from prefect.futures import PrefectConcurrentFuture, PrefectFuture
from prefect.task_engine import run_task_sync
from prefect.task_runners import TaskRunner


class InOrder(TaskRunner[PrefectFuture[Any]]):
    """A task that is submitted has ended when `submit` returns."""

    def duplicate(self) -> "InOrder":
        return type(self)()

    def submit(
        self,
        task: Any,
        parameters: dict[str, Any],
        wait_for: Iterable[PrefectFuture[Any]] | None = None,
        dependencies: dict[str, set[Any]] | None = None,
    ) -> PrefectConcurrentFuture[Any]:
        task_run_id: UUID = uuid4()
        ended: Future[Any] = Future()
        ended.set_result(
            run_task_sync(
                task=task,
                task_run_id=task_run_id,
                parameters=parameters,
                wait_for=wait_for,
                return_type="state",
                dependencies=dependencies,
            )
        )
        return PrefectConcurrentFuture(task_run_id, ended)
