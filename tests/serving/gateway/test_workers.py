"""Worker processes: several on one port, told to stop, restarted, in each other's way."""

import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from serving.gateway.launching import launch_workers, stop_workers, wait_workers
from serving.gateway.records import list_workers, worker_id
from tests.serving.gateway.conftest import CHAT, HTTP, Engine, Site, open_site, wait_until
from turnout.errors import ResourceShort
from turnout.paths import Home


def test_two_workers_follow_the_same_routes_and_show_one_sum(tmp_path: Path, engines: list[Engine]) -> None:
    site = open_site(tmp_path, engines, workers=2)
    try:
        assert [worker.id for worker in site.workers] == [worker_id(site.config, 0), worker_id(site.config, 1)]
        routes = site.routes(champion=1)
        assert site.push(routes) == [routes.generation] * 2
        # A new connection each: the kernel spreads them.
        assert {site.ask(headers={"Connection": "close"}).json()["model"] for _ in range(40)} == {"incidents-v1"}
        figures = [site.state(index)["figures"]["incidents"]["arms"]["1"]["requests"] for index in (0, 1)]
        assert sum(figures) == 40
        assert min(figures) > 0
        for worker in site.workers:
            text = HTTP.get(f"{worker.inner_url}/metrics").text
            assert 'turnout_requests_total{code="200",name="incidents",version="incidents-v1"} 40.0' in text
            assert f"turnout_routes_generation {float(routes.generation)}" in text
        killed = site.workers[0]
        os.kill(killed.pid, signal.SIGKILL)
        wait_until(lambda: len(site.workers) == 1, "one worker is gone")
        wait_until(lambda: _answers(site), "the other one answers")
        launch_workers(site.home, site.config)
        wait_workers(site.home, site.config, 30)
        assert len(site.workers) == 2
        assert site.workers[0].pid != killed.pid
        assert site.metric("turnout_requests_total", version="incidents-v1", code="200") == 41
    finally:
        stop_workers(site.home)
    assert list_workers(site.home) == []
    with socket.socket() as probe:
        assert probe.connect_ex((site.config.host, site.config.port)) != 0


def test_a_worker_that_is_told_to_stop_finishes_its_streams(tmp_path: Path, engines: list[Engine]) -> None:
    site = open_site(tmp_path, engines)
    for engine in engines:
        engine.behave(mode="ok", chunks=8, seconds=0.15)
    body = {"model": "incidents", "messages": [], "stream": True}
    with HTTP.stream("POST", site.url + CHAT, json=body) as answer, ThreadPoolExecutor(1) as pool:
        lines = answer.iter_lines()
        next(lines)
        stopped = pool.submit(stop_workers, site.home)
        wait_until(lambda: not _accepts(site), "no new connections")
        rest = [line for line in lines if line]
        assert rest[-1] == "data: [DONE]"
        assert len(rest) == 8
        stopped.result()
    log = (site.home.logs / f"{worker_id(site.config, 0)}.log").read_text()
    assert "Traceback" not in log


def test_a_drained_gateway_says_so(tmp_path: Path, engines: list[Engine]) -> None:
    site = open_site(tmp_path, engines)
    try:
        [worker] = site.workers
        for wanted, status in [(True, 503), (False, 200)]:
            HTTP.post(f"{worker.inner_url}/inner/drain", json={"drain": wanted}, headers=site.admin)
            assert site.state()["draining"] is wanted
            assert site.ask().status_code == status
            assert HTTP.get(f"{site.url}/ready").status_code == status
        for path in ("/inner/state", "/inner/drain", "/inner/routes"):
            assert HTTP.get(worker.inner_url + path).status_code == 401
    finally:
        stop_workers(site.home)


def test_a_taken_port_is_named_with_what_to_do(tmp_path: Path, site: Site) -> None:
    with pytest.raises(ResourceShort, match=r"gateway is to listen, is taken") as caught:
        launch_workers(Home(tmp_path), site.config)
    assert "serving.gateway.port" in caught.value.next_step


def test_launching_again_starts_nothing(site: Site) -> None:
    before = site.workers
    launch_workers(site.home, site.config)
    wait_workers(site.home, site.config, 5)
    assert site.workers == before


def _accepts(site: Site) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((site.config.host, site.config.port)) == 0


def _answers(site: Site) -> bool:
    """A client whose connection the killed worker had accepted is cut off."""
    try:
        return site.ask().status_code == 200
    except httpx.TransportError:
        return False
