"""Routes on disk, and which versions make room for a new one."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from serving.room import choose
from serving.routes import NameRoutes, RoutedVersion, Routes, load_routes, read_routes, routed, update_routes
from turnout.errors import BadInput
from turnout.paths import Home
from turnout.references import Base

BASE = Base("base", "base", "/nowhere", "a" * 64, "b" * 64, "c" * 64, (0,))


def on(champion: int, *others: int) -> NameRoutes:
    versions = {str(n): RoutedVersion(f"{n}" * 64, f"/adapters/{n}", BASE.sha256) for n in (champion, *others)}
    return NameRoutes(champion, versions)


BASES = {BASE.sha256: BASE}
ROUTES = Routes(3, BASES, {"early": on(2, 1), "late": on(7, 5)})


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_the_generation_rises_only_with_a_change(home: Home) -> None:
    first = update_routes(home, lambda _: replace(ROUTES, generation=0))
    assert first and first.generation == 1 and read_routes(home) == first
    assert update_routes(home, lambda _: replace(ROUTES, generation=99)) == first
    again = update_routes(home, lambda routes: routes and replace(routes, names={"early": on(2)}))
    assert again and again.generation == 2 and again.names == {"early": on(2)}


def test_no_change_is_lost(home: Home) -> None:
    def add(name: str) -> None:
        def change(routes: Routes | None) -> Routes:
            return Routes(0, BASES, {**(routes.names if routes else {}), name: on(1)})

        update_routes(home, change)

    threads = [threading.Thread(target=add, args=(f"name{number}",)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    routes = read_routes(home)
    assert routes and len(routes.names) == 12 and routes.generation == 12


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"names": {}}'])
def test_garbage_counts_as_no_routes(home: Home, text: str) -> None:
    home.routes.write_text(text)
    assert read_routes(home) is None
    with pytest.raises(BadInput, match="cannot be read as routes"):
        load_routes(home.routes)
    assert update_routes(home, lambda before: None if before else ROUTES) == replace(ROUTES, generation=1)


def test_champions_come_first_then_other_arms_then_the_latest_names() -> None:
    assert [each.served_name for each in routed(ROUTES)] == ["late-v7", "early-v2", "late-v5", "early-v1"]
    canary = replace(ROUTES.names["early"], weights={"1": 5.0})
    with_canary = replace(ROUTES, names={**ROUTES.names, "early": canary})
    assert [each.served_name for each in routed(with_canary)] == ["late-v7", "early-v2", "early-v1", "late-v5"]
    assert routed(None) == []


def test_room_is_made_by_what_is_needed_least() -> None:
    loaded = {"late-v7", "early-v2", "late-v5", "early-v1", "late-v6"}

    def chosen(limit: int, name: str) -> list[str]:
        return choose(loaded, f"{name}-v9", limit, routed(ROUTES), name)

    assert chosen(6, "late") == []
    assert chosen(5, "late") == ["late-v6"]
    assert chosen(4, "late") == ["late-v6", "late-v5"]
    # Those that no request uses go before others.
    assert choose(loaded, "late-v9", 5, routed(ROUTES), "late", prefer={"late-v5", "late-v7"}) == ["late-v5"]
    assert chosen(4, "other") == ["late-v6", "early-v1"]
    # Champions stay, whatever the limit.
    assert chosen(1, "late") == ["late-v6", "late-v5", "early-v1"]
    assert choose(loaded, "late-v6", 5, routed(ROUTES), "late") == []
