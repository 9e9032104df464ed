"""Mapped tasks on a real Prefect server, run one after the other in the flow's thread."""

import threading

import pytest
from prefect import flow, task
from prefect.testing.utilities import prefect_test_harness

from tasks import progress
from tasks.in_order import InOrder
from turnout.errors import ResourceShort

pytestmark = pytest.mark.slow


@task
def halve(number: int) -> int:
    progress.current().sweep.append({"number": number, "thread": threading.get_ident()})
    if number == 0:
        raise KeyboardInterrupt
    if number % 2:
        raise ResourceShort(f"{number} is odd", "Give an even one.")
    return number // 2


@flow(task_runner=InOrder())
def halve_all(numbers: list[int]) -> list[object]:
    return [future.result(raise_on_failure=False) for future in halve.map(numbers)]


def test_they_run_in_order_and_a_failure_ends_nothing_but_an_interrupt_does() -> None:
    with prefect_test_harness(server_startup_timeout=180):
        with progress.watched() as run:
            first, failed, last = halve_all([2, 3, 4])
        assert (first, last) == (1, 2) and isinstance(failed, ResourceShort)
        assert run.sweep == [{"number": number, "thread": threading.get_ident()} for number in (2, 3, 4)]
        with progress.watched() as interrupted, pytest.raises(KeyboardInterrupt):
            halve_all([0, 2])
        assert [row["number"] for row in interrupted.sweep] == [0]
