from pathlib import Path

from mlflow import MlflowClient

from registry.reports import keep_report
from registry.versions import get_version
from tests.registry.conftest import Registry
from tests.registry.material import NAME, register_one
from turnout.paths import Home


def write(folder: Path, text: str) -> list[Path]:
    folder.mkdir(exist_ok=True)
    files = [folder / "bot-v1.html", folder / "bot-v1-loss.png"]
    for file in files:
        file.write_text(text)
    return files


def test_a_report_lies_with_its_run_and_the_version_names_it(client: MlflowClient, home: Home, tmp_path: Path) -> None:
    version = register_one(client, home)
    described = client.get_model_version(NAME, "1").description
    for text in ("first", "second"):
        address = keep_report(client, version, write(tmp_path / "reports", text))
    assert address == f"runs:/{version.run_id}/report/bot-v1.html"
    kept = {file.path for file in client.list_artifacts(version.run_id, "report")}
    assert kept == {"report/bot-v1.html", "report/bot-v1-loss.png"}
    assert Path(client.download_artifacts(version.run_id, "report/bot-v1.html")).read_text() == "second"
    assert get_version(client, NAME, 1).tags["report"] == address
    assert client.get_model_version(NAME, "1").description == f"{described}\nReport of the run: `{address}`\n"


def test_a_server_shows_the_report_on_a_page_of_its_own(remote: Registry, tmp_path: Path) -> None:
    (version,) = remote.register(b"weights")
    address = keep_report(remote.client, version, write(tmp_path / "reports", "page"))
    experiment = remote.client.get_run(version.run_id).info.experiment_id
    page = f"/#/experiments/{experiment}/runs/{version.run_id}/artifacts/report/bot-v1.html"
    assert address == remote.client.tracking_uri.rstrip("/") + page
    assert f"]({address})" in remote.client.get_model_version(remote.name, "1").description
