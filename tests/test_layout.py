"""The directions of imports that DESIGN fixes: flows → tasks → {data, serving → registry} → turnout."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("turnout", "data", "registry", "serving", "tasks", "flows")
MAY_IMPORT = {
    "turnout": {"turnout"},
    "data": {"data", "turnout"},
    "registry": {"registry", "turnout"},
    "serving": {"serving", "registry", "turnout"},
    "tasks": {"tasks", "data", "serving", "registry", "turnout"},
    "flows": set(PACKAGES),
}
HEAVY = {"torch", "transformers", "vllm", "mlflow", "prefect", "datasets", "peft", "trl", "bitsandbytes", "pyarrow"}


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imported(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_go_one_way(package: str) -> None:
    for module in modules(package):
        ours = imported(ast.parse(module.read_text("utf-8"))) & set(PACKAGES)
        assert ours <= MAY_IMPORT[package], module


@pytest.mark.parametrize("package", ["turnout", "data", "registry", "serving"])
def test_only_flows_and_tasks_know_prefect(package: str) -> None:
    for module in modules(package):
        assert "prefect" not in imported(ast.parse(module.read_text("utf-8"))), module


def test_help_imports_nothing_heavy() -> None:
    code = "import sys, flows.cli, flows.commands.app; print(' '.join({m.split('.')[0] for m in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not HEAVY & set(loaded)


def test_training_runs_without_prefect_and_mlflow() -> None:
    code = (
        "import sys; sys.modules['prefect'] = sys.modules['mlflow'] = None\n"
        "import tasks.train, tasks.score, tasks.bases, tasks.memory"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
