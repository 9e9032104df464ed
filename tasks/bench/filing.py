"""Writes what a bench found: JSON to compare, Markdown to read, a plot to look at."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.bench.catalogue import bench_module, title
from tasks.bench.plots import first_figures
from tasks.bench.result import Result, Subject
from tasks.bench.tables import markdown_table, shown
from turnout import pages
from turnout.files import write_atomically, write_json
from turnout.references import to_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Files:
    """`plot` is None where there was nothing to draw."""

    json: Path
    markdown: Path
    plot: Path | None


def write(result: Result, folder: Path) -> Files:
    """Write `<bench>.json`, `<bench>.md` and `<bench>.png` into `folder`."""
    files = [folder / f"{result.bench}.{kind}" for kind in ("json", "md", "png")]
    write_json(files[0], to_json(result))
    figure = draw(result)
    write_atomically(files[1], markdown(result, files[2].name if figure else None))
    if figure:
        files[2].write_bytes(pages.png(figure))
    return Files(files[0], files[1], files[2] if figure else None)


def draw(result: Result) -> "Figure | None":
    """The bench's own plot, or bars of its first figures."""
    return getattr(bench_module(result.bench), "draw", first_figures)(result)


def markdown(result: Result, plot: str | None) -> str:
    """The result in words, with its table, notes and settings."""
    settings = [f"- {name}: {value}" for name, value in result.settings.items()]
    lines = [
        *(f"# Bench {result.bench}", "", f"{title(result.bench)}.", ""),
        *(*(f"- {name}: {value}" for name, value in facts(result.subject).items()), ""),
        *markdown_table(shown(result.rows)),
        *(["", f"![{title(result.bench)}]({plot})"] if plot else []),
        *(["", "## Notes", "", *(f"- {' '.join(note.split())}" for note in result.notes)] if result.notes else []),
        *("", "## Settings", "", *settings, ""),
    ]
    return "\n".join(lines)


def facts(subject: Subject) -> dict[str, str]:
    """What was measured, with what, on what and when, in words."""
    adapter = f"{subject.adapter} ({subject.adapter_sha256[:12]})" if subject.adapter else "none"
    hardware = subject.hardware
    machine = [f"{hardware.get('cpu')}, {hardware.get('cores')} cores, {hardware.get('ram_gib')} GiB"]
    machine += [str(gpu) for gpu in hardware.get("gpus", ())]
    return {
        "model": f"{subject.model} ({subject.base_sha256[:12]})",
        "adapter": adapter,
        **({"quantisation": subject.quantisation} if subject.quantisation else {}),
        "machine": "; ".join(machine),
        "versions": ", ".join(f"{name} {version}" for name, version in subject.versions.items()),
        "date": subject.date,
    }
