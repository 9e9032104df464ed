import re
from dataclasses import replace
from html import unescape
from pathlib import Path

from tasks.report.markdown import markdown
from tasks.report.outcome import loss_table, outcome
from tasks.report.page import report_page
from tests.tasks.report.material import HOSTILE, finished
from turnout.files import write_json
from turnout.references import Loss


def rows(page: str, section: str) -> list[list[str]]:
    """The cells of the tables below a heading."""
    body = page.partition(f"<h2>{section}</h2>")[2].partition("</section>")[0]
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in re.findall("<tr>.*?</tr>", body, re.S)]
    return [[unescape(re.sub("<[^>]+>", "", cell)) for cell in row] for row in cells]


def test_the_page_shows_every_rule_with_its_figures(tmp_path: Path) -> None:
    run = finished(tmp_path)
    page = report_page(run, outcome(run), {})
    assert "<h1>bot-v2: refused by the gate</h1>" in page and "Champion before: v1." in page
    head, base, stop = rows(page, "Gate")
    assert head == ["rule", "verdict", "figure", "limit", "interval", "in words"]
    assert base[:5] == ["better_than_base", "passed", "3.3", "0.0", "3.1000 to 3.5000"]
    assert stop[:5] == ["stop_rate", "refused", "0.5", "0.8", "–"]


def test_what_people_and_models_wrote_is_text(tmp_path: Path) -> None:
    run = finished(tmp_path)
    page = report_page(run, outcome(run) | {"warnings": [HOSTILE]}, {"loss": b"png"})
    assert "<script" not in page and "왜?" in page
    assert not re.search(r"(src|href)=\"(?!data:)", page)
    assert "\\|" not in page and HOSTILE in unescape(page)


def test_answers_to_a_prompt_stand_side_by_side(tmp_path: Path) -> None:
    run = finished(tmp_path)
    head, beside, _head, other = rows(report_page(run, outcome(run), {}), "Answers")
    assert head == ["prompt", "expected", "base", "champion", "candidate", "served"]
    assert beside[1:] == ["expected", "of the base", "of the champion", "of the candidate", "of the engine"]
    assert other == ["another", "expected", "cut o … (length)"]


def test_losses_tell_the_price_of_each_base(tmp_path: Path) -> None:
    run = finished(tmp_path)
    table = {(row["model"], row["measured on"]): row for row in loss_table(run.scores, run.served)}
    assert table["candidate", "original, bf16"]["price"] == 0.3
    assert table["base", "original, bf16"]["price"] == -0.5
    assert table["candidate", "served by tiny"]["price"] == 0.0
    own = replace(run.scores, own_champion=Loss(2.0, 9, 1), own_candidate=Loss(2.5, 9, 1))
    last = loss_table(own, run.served)[-1]
    assert (last["model"], last["eval loss"]) == ("candidate", 2.5) and "champion's own rows" in last["measured on"]


def test_a_sweep_and_a_data_check_are_in_the_page(tmp_path: Path) -> None:
    sweep = [
        {"settings": {"train.lora_rank": 8}, "eval_loss": 1.91, "run_id": "a", "seconds": 3.0, "error": None},
        {"settings": {"train.lora_rank": 99}, "eval_loss": None, "run_id": None, "seconds": None, "error": HOSTILE},
    ]
    run = finished(tmp_path, sweep=[row | {"chosen": row["run_id"] == "a"} for row in sweep])
    check = {"name": "leaked", "severity": "warn", "count": 1, "share": 0.1, "limit": 0.0, "text": "one row"}
    write_json(tmp_path / "check.json", {"rows": 6, "format": "instruction", "checks": [check]})
    result = outcome(run)
    page = report_page(run, result, {})
    assert rows(page, "Sweep")[1:] == [["8", "1.91", "3.0", "went to the gate"], ["99", "–", "–", HOSTILE]]
    assert rows(page, "Data check")[1] == ["leaked", "warn", "1", "0.1", "0.0", "one row"]
    assert [row["settings"] for row in result["sweep"]] == [row["settings"] for row in sweep]


def test_prefects_page_is_short_and_says_where_the_report_is(tmp_path: Path) -> None:
    run = finished(tmp_path)
    result, losses = outcome(run), loss_table(run.scores, run.served)
    short = markdown(result | {"report": "reports/bot-v2.html", "report_url": "http://mlflow/#/x"}, losses)
    assert "[The report](http://mlflow/#/x), also `reports/bot-v2.html`" in short
    assert "**refused**" in short and "of the candidate" not in short
    assert len({line.count("|") - line.count("\\|") for line in short.splitlines() if line.startswith("| ")}) == 2
