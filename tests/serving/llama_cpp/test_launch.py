"""The command that starts the engine."""

import json

from serving.config import ServingConfig
from serving.llama_cpp.launch import build_launch, computes_on
from serving.machine import Machine
from turnout.references import Base

BASE = Base("org/model", "model", "/bases/model", "b" * 64, "t" * 64, "c" * 64, (2,))
MACHINE = Machine((), 6, False, ())


def flag(command: tuple[str, ...], name: str) -> str:
    return command[command.index(name) + 1]


def test_settings_reach_the_engine() -> None:
    config = ServingConfig.model_validate(
        {"port": 8123, "max_model_len": 512, "max_cpu_loras": 5, "llama_cpp": {"quantisation": "Q4_0", "batch": 64}}
    )
    command = build_launch(BASE, config, 9, MACHINE).command
    assert flag(command, "--port") == "8123" and flag(command, "--max-model-len") == "512"
    assert flag(command, "--max-lora-rank") == "9" and flag(command, "--max-loras") == "5"
    settings = json.loads(flag(command, "--settings"))
    assert (settings["quantisation"], settings["batch"], settings["threads"]) == ("Q4_0", 64, 6)
    assert json.loads(flag(command, "--base"))["sha256"] == BASE.sha256


def test_a_command_of_ones_own_replaces_the_program() -> None:
    config = ServingConfig.model_validate({"llama_cpp": {"command": ["enter", "python", "-m", "serving.llama_cpp"]}})
    assert build_launch(BASE, config, 8, MACHINE).command[:4] == ("enter", "python", "-m", "serving.llama_cpp")


def test_proofs_hold_for_one_format() -> None:
    formats = [ServingConfig.model_validate({"llama_cpp": {"quantisation": each}}) for each in ("f16", "Q8_0")]
    told = [computes_on(config, MACHINE) for config in formats]
    assert told[0].endswith("llama.cpp f16") and told[1].endswith("llama.cpp Q8_0") and told[0].startswith("cpu ")
