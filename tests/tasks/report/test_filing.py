# ruff: noqa: F401, F811  (fixtures of another folder are imported by name)
from base64 import b64encode
from dataclasses import replace
from pathlib import Path

from mlflow import MlflowClient

from tasks.report.filing import file_report, write_report
from tasks.report.outcome import outcome
from tasks.report.plots import token_lengths
from tests.registry.conftest import client, home, migrated, no_registry_of_the_users
from tests.registry.material import register_one
from tests.tasks.report.material import finished
from turnout.paths import Home


def test_the_page_holds_the_plots_that_lie_beside_it(tmp_path: Path) -> None:
    run, here = finished(tmp_path), Home(tmp_path / "home")
    files = write_report(here, run, outcome(run))
    assert [file.name for file in files] == ["bot-v2.html", "bot-v2-loss.png", "bot-v2-lengths.png"]
    page = files[0].read_text("utf-8")
    for plot in files[1:]:
        assert plot.read_bytes().startswith(b"\x89PNG") and b64encode(plot.read_bytes()).decode() in page


def test_without_metrics_there_are_no_curves(tmp_path: Path) -> None:
    run, here = finished(tmp_path), Home(tmp_path / "home")
    (tmp_path / "run" / "metrics.jsonl").unlink()
    assert [file.name for file in write_report(here, run, outcome(run))] == ["bot-v2.html", "bot-v2-lengths.png"]


def test_it_is_filed_with_the_run_and_named_in_the_outcome(client: MlflowClient, home: Home, tmp_path: Path) -> None:
    version = register_one(client, home)
    run = replace(finished(tmp_path), version=version)
    result = outcome(run)
    file_report(run, result)
    assert result["report"] == str(home.reports / f"{version.served_name}.html") and result["report_url"] is None
    assert len(client.list_artifacts(version.run_id, "report")) == 3


def test_lengths_are_read_in_order(tmp_path: Path) -> None:
    run = finished(tmp_path)
    assert token_lengths(run.dataset.train_file) == [3, 5, 5, 9]
