"""One self-contained HTML page of what several benches found."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tasks.bench.catalogue import title
from tasks.bench.filing import draw, facts
from tasks.bench.result import Result
from tasks.bench.tables import shown
from turnout import pages

if TYPE_CHECKING:
    from markupsafe import Markup


def bench_page(results: Mapping[str, Result], failures: Mapping[str, str], seconds: Mapping[str, float]) -> str:
    """The figures, plots and notes of each bench; `failures` are the reasons of those that have none."""
    parts = [_failures(failures)] if failures else []
    parts += [_facts(next(iter(results.values())))] if results else []
    parts += [_bench(result) for result in results.values()]
    parts.append(pages.section("Time taken", pages.table([_taken(name, seconds[name]) for name in seconds])))
    dates = sorted(result.subject.date for result in results.values())
    subtitle = f"Begun {dates[0]}. " if dates else ""
    return pages.page("Benches", *parts, subtitle=f"{subtitle}{len(results)} benches, {len(failures)} failed.")


def _failures(failures: Mapping[str, str]) -> "Markup":
    return pages.section("Failed", *(pages.text(f"{name}: {why}", "bad") for name, why in failures.items()))


def _facts(result: Result) -> "Markup":
    told = {name: value for name, value in facts(result.subject).items() if name != "date"}
    return pages.section("Measured", pages.table([{"what": name, "is": value} for name, value in told.items()]))


def _bench(result: Result) -> "Markup":
    figure = draw(result)
    words = f"{title(result.bench)}. Measured {result.subject.date}."
    settings = "; ".join(f"{name}: {value}" for name, value in result.settings.items())
    return pages.section(
        result.bench,
        pages.text(words),
        pages.table(shown(result.rows)),
        *([pages.figure(figure, title(result.bench))] if figure else []),
        *(pages.text(note, "note") for note in result.notes),
        pages.text(f"Settings: {settings}."),
    )


def _taken(name: str, seconds: float) -> dict[str, Any]:
    return {"bench": name, "seconds": round(seconds, 1)}
