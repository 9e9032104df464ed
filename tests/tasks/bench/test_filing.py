"""A result as Markdown, plot and page: units readable, everything that it depends on named, notes escaped."""

from dataclasses import replace
from pathlib import Path

from tasks.bench.filing import write
from tasks.bench.page import bench_page
from tasks.bench.tables import shown
from tests.tasks.bench.material import SUBJECT, batching_result


def test_the_markdown_names_all_that_the_figures_depend_on(tmp_path: Path) -> None:
    adapter = replace(SUBJECT, adapter="bot-v3", adapter_sha256="ef" * 32)
    text = write(batching_result(adapter), tmp_path).markdown.read_text("utf-8")

    for told in (SUBJECT.model, "bot-v3", "efefefefefef", "a CPU, 2 cores, 24 GiB", "vllm 0.32.0", SUBJECT.date):
        assert told in text
    assert "| continuous | 50 | 9.9 | 317.0 |" in text
    assert "![" in text and "batching.png" in text


def test_the_plot_is_a_png(tmp_path: Path) -> None:
    plot = write(batching_result(), tmp_path).plot
    assert plot and plot.read_bytes().startswith(b"\x89PNG")


def test_a_result_without_rows_has_no_plot(tmp_path: Path) -> None:
    files = write(replace(batching_result(), rows=[]), tmp_path)
    assert files.plot is None and not (tmp_path / "batching.png").exists()


def test_units_stand_in_the_columns() -> None:
    row = {"size_bytes": 269e6, "p99_ms": 5050.4, "requests_per_s": 9.8765, "use_percent": 12.0, "answer_p50_s": 2.0}
    told = {"size, MB": 269.0, "P99, ms": 5050, "requests/s": 9.88, "use, %": 12.0, "answer P50, s": 2.0}
    assert shown([row]) == [told]


def test_the_page_holds_plots_notes_and_failures() -> None:
    noted = replace(batching_result(), notes=["<b>not markup</b>"])
    html = bench_page({"batching": noted}, {"load": "the engine ended"}, {"batching": 1.0, "load": 2.0})

    assert "data:image/png;base64," in html
    assert "&lt;b&gt;not markup" in html
    assert "load: the engine ended" in html and "1 failed" in html


def test_the_page_of_nothing_but_failures_is_a_page() -> None:
    assert "the engine ended" in bench_page({}, {"load": "the engine ended"}, {"load": 2.0})
