# ruff: noqa: F401, F811  (fixtures of another folder are imported by name)
"""Files of a home that are lost or damaged while it serves, and admin calls that make no sense."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from serving.asking import ask_version
from serving.control import reconciler_url
from serving.gateway.records import config_file, list_workers, record_file
from serving.reconciler_process import start_reconciler
from serving.records import running_engines
from serving.releasing import promote
from serving.stack import down
from serving.status import compare
from serving.tokens import ADMIN_TOKEN, admin_token
from tests.registry.conftest import client, home, migrated, no_registry_of_the_users
from tests.registry.material import NAME
from tests.serving.yard import Yard, wait_until, yard
from turnout.errors import BadInput, EngineError
from turnout.files import exclusive
from turnout.paths import Home


@pytest.fixture
def served(yard: Yard) -> Yard:
    """v1 was released, then v2, which is served through a gateway."""
    yard.engine()
    yard.serve(yard.make(b"one"), yard.make(b"two"))
    yard.gateway()
    return yard


@pytest.mark.parametrize("damage", ["garbage", "an old copy", "gone"])
def test_gateways_follow_though_the_routes_on_disk_were_lost(served: Yard, damage: str) -> None:
    old = served.home.routes.read_text()
    for number in (1, 2, 1, 2):
        promote(served.home, NAME, number)
    if damage == "gone":
        served.home.routes.unlink()
    else:
        served.home.routes.write_text(old if damage == "an old copy" else "\x00{")
    switch = promote(served.home, NAME, 1)
    assert switch.pending == () and served.ask().json()["model"] == "incident-bot-v1"
    assert compare(served.home, NAME)["in_sync"]


def test_lost_records_are_written_anew(served: Yard) -> None:
    pid = start_reconciler(served.home, follow_log=True)
    (worker,) = list_workers(served.home)
    served.home.reconciler.write_text("\x00{")
    record_file(served.home, worker.id).unlink()
    assert wait_until(lambda: list_workers(served.home), "the worker's record is back") == [worker]
    wait_until(lambda: reconciler_url(served.home), "the reconciler's record is back")
    assert start_reconciler(served.home, follow_log=True) == pid


def test_unreadable_settings_start_no_other_gateway(served: Yard) -> None:
    start_reconciler(served.home, follow_log=True)
    config_file(served.home).write_text("\x00{")
    told = wait_until(lambda: compare(served.home, None)["problems"], "status tells it")
    assert "gateway.json cannot be read: turnout up writes it anew" in told[0]
    assert config_file(served.home).read_text() == "\x00{" and len(list_workers(served.home)) == 1
    assert served.ask().status_code == 200


def test_an_empty_admin_token_lets_nobody_in(served: Yard) -> None:
    served.home.admin_token.write_text("\n")
    token = admin_token(served.home)
    assert len(token) > 30 and admin_token(served.home) == token
    url = list_workers(served.home)[0].url
    for sent in ({}, {"Authorization": "Bearer"}, {"Authorization": "Bearer x"}):
        assert httpx.get(f"{url}/admin/routes", headers=sent).status_code == 401


def test_an_answer_that_is_no_stream_is_the_engines_fault(served: Yard) -> None:
    with pytest.raises(EngineError, match="ended its answer as incident-bot before it began"):
        ask_version(served.home, NAME, "hi")


@pytest.mark.parametrize("token", ["ключ", "a b", "a\nb"])
def test_a_token_that_no_header_carries_is_refused(home: Home, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ADMIN_TOKEN, token)
    with pytest.raises(BadInput, match="the admin token in TURNOUT_ADMIN_TOKEN has spaces or characters beyond ASCII"):
        admin_token(home)


BAD_CALLS: list[tuple[str, str, bytes, int]] = [
    ("POST", "prepare", b"[" * 100_000, 400),
    ("POST", "prepare", b"[1]", 400),
    ("POST", "prepare", b"\xff", 400),
    ("POST", "prepare", b'{"name": "incident-bot", "version": 1e9}', 400),
    ("POST", "prepare", b'{"name": "incident-bot", "version": 1%s}' % (b"0" * 30), 400),
    ("POST", "reconcile", b'{"name": "incident-bot", "event": {}}', 400),
    ("POST", "reconcile", b'{"name": "incident-bot", "event": Infinity}', 400),
    ("POST", "override", b'{"name": "incident-bot", "to": "1"}', 400),
    ("POST", "override", b'{"name": "incident-bot", "expect": true}', 400),
    ("POST", "override", b'{"name": "incident-bot", "actor": {}}', 400),
    ("POST", "drain", b'{"drain": "false"}', 400),
    ("POST", "nothing", b"{}", 404),
    ("GET", "prepare", b"", 405),
]


def test_admin_calls_that_make_no_sense_change_nothing(served: Yard) -> None:
    start_reconciler(served.home, follow_log=True)
    url = list_workers(served.home)[0].url
    for method, call, body, status in BAD_CALLS:
        answer = httpx.request(method, f"{url}/admin/{call}", content=body, headers=served.admin, timeout=20)
        error: dict[str, Any] = answer.json()["error"]
        assert answer.status_code == status, (call, body[:60], answer.text)
        assert error["message"] and error["next_step"]
    assert served.ask().json()["model"] == "incident-bot-v2" and not served.home.journal.exists()


def test_down_stops_what_an_up_still_starts(yard: Yard) -> None:
    with ThreadPoolExecutor(1) as pool:
        with exclusive(yard.home.lock("up")):
            stopping = pool.submit(down, yard.home)
            time.sleep(0.5)
            engine = yard.engine()
            yard.gateway()
            assert not stopping.done()
        stopped = stopping.result(30)
    assert engine.pid in stopped and not running_engines(yard.home) and not list_workers(yard.home)
