"""Requests that leave the engine open go to the primary kind, and to the other one where that cannot take them."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.serving.gateway.conftest import SERVED, Site, wait_until
from tests.serving.gateway.test_generating import BOTH


@pytest.mark.parametrize("kinds", [BOTH, BOTH[::-1]])
def test_the_first_kind_of_the_routes_is_the_primary(site: Site, kinds: tuple[str, str]) -> None:
    site.push(site.routes(kinds=kinds))
    answers = [site.ask(), site.ask(), site.ask(stream=True)]
    assert [answer.headers["x-turnout-backend"] for answer in answers] == [kinds[0]] * 3
    assert [len(engine.requests()) for engine in site.engines] == [3, 0]


def test_the_places_of_the_kinds_count_and_not_the_order_of_the_replicas(site: Site) -> None:
    routes = site.routes(kinds=BOTH)
    first, second = routes.replicas
    site.push(replace(routes, replicas=(replace(second, place=1), first)))
    assert site.ask().headers["x-turnout-backend"] == "vllm"


def test_a_primary_that_is_down_is_replaced(site: Site) -> None:
    site.push(site.routes(kinds=BOTH))
    site.engines[0].kill()
    try:
        answers = [site.ask() for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200] * 3
        assert {answer.headers["x-turnout-backend"] for answer in answers} == {"llama_cpp"}
    finally:
        site.engines[0].start(*SERVED)
    wait_until(lambda: site.ask().headers["x-turnout-backend"] == "vllm", "the primary is back")


def test_a_primary_without_the_version_is_passed_over(site: Site) -> None:
    site.push(site.routes(kinds=BOTH))
    site.engines[0].behave(names=["incidents-v1"])
    assert site.ask().headers["x-turnout-backend"] == "llama_cpp"
    assert site.ask("incidents-v1").headers["x-turnout-backend"] == "vllm"


def test_a_full_queue_spills_over_and_two_full_ones_refuse(site: Site) -> None:
    site.push(site.routes(kinds=BOTH, concurrent=1))
    for engine in site.engines:
        engine.behave(seconds=0.5)
    with ThreadPoolExecutor(9) as pool:
        answers = list(pool.map(lambda _: site.ask(), range(9)))
    each = 1 + site.config.max_queued
    by_kind = [answer.headers.get("x-turnout-backend") for answer in answers if answer.status_code == 200]
    assert (by_kind.count("vllm"), by_kind.count("llama_cpp")) == (each, each)
    assert [answer.status_code for answer in answers].count(429) == 9 - 2 * each


def test_requests_of_others_count_for_the_queue(site: Site) -> None:
    site.push(site.routes(kinds=BOTH, concurrent=4))
    full = f"vllm:num_requests_running 4.0\nvllm:num_requests_waiting {site.config.max_queued}.0\n"
    site.engines[0].behave(metrics=full)
    wait_until(lambda: site.ask().headers["x-turnout-backend"] == "llama_cpp", "the queue is seen to be full")
    site.engines[0].behave(metrics="")
    wait_until(lambda: site.ask().headers["x-turnout-backend"] == "vllm", "without its counts, own ones hold")
