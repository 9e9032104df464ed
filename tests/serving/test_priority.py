# ruff: noqa: F401, F811  (fixtures of another folder are imported by name)
"""An engine that proves yields the cores, and gets its usual priority back."""

import os
from pathlib import Path

import pytest

from serving.priority import NICENESS, yielding
from tests.registry.conftest import client, home, migrated, no_registry_of_the_users
from tests.serving.yard import LISTENER, Yard, settings, yard


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser may raise a priority again")
def test_every_thread_yields_meanwhile(yard: Yard) -> None:
    yard.config = settings(command=[*LISTENER, "--child"])
    engine = yard.engine()
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    assert engine.computes_on.startswith("cpu")
    threads = [int(each.name) for each in Path(f"/proc/{engine.pid}/task").iterdir()]
    with yielding(engine):
        assert {os.getpriority(os.PRIO_PROCESS, each) for each in threads} == {NICENESS}
    assert {os.getpriority(os.PRIO_PROCESS, each) for each in threads} == {usual}
