from pathlib import Path

import pytest

from flows.presets.loading import load_preset, preset_names, with_serving
from serving.config import ServingConfig
from turnout.errors import PresetError


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_valid(name: str) -> None:
    assert load_preset(name).name


def test_the_7b_preset_is_the_articles() -> None:
    train = load_preset("qwen2.5-7b").train
    assert (train.lora_rank, train.lora_alpha, train.target_modules) == (16, 16, ("q_proj", "v_proj"))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.lora_rnak=8", "unknown key 'train.lora_rnak' (did you mean 'lora_rank'?)"),
        ("epochs=3", "did you mean 'train.epochs'?"),
        ("train.epochs=0", "train.epochs: Input should be greater than 0 (got 0)"),
        ("train.learning_rate=fast", "train.learning_rate: Input should be a valid number"),
        ("train=3", "train: Input should be a valid dictionary"),
        ("train.target_modules=[]", "target_modules is empty"),
        ("train.target_modules=[lm_head]", "names lm_head"),
        ("train.lora_rank=1024", "train.lora_rank=1024 cannot be served"),
        ("train.target_modules=q_proj", "train.target_modules='q_proj': give a list such as [q_proj, v_proj], or all"),
        ("train.target_modules=[all-linear, q_proj]", "give a list"),
        ("train.seed=-1", "train.seed: Input should be greater than or equal to 0 (got -1)"),
        ("train.seed=4294967296", "train.seed: Input should be less than 4294967296"),
        ("train.seed=0x" + "f" * 5000, "(got a number too long to show)"),
        ("train.learning_rate=.nan", "train.learning_rate: Input should be a finite number (got nan)"),
        ("train.epochs=.inf", "train.epochs: Input should be a finite number (got inf)"),
        ("train.epochs=" + "x" * 9000, "xxx...xxx"),
        ("train.epochs=" + "[" * 3000, "is nested too deeply"),
        ("data=&x {b: *x}", "unknown key 'data.b'"),
        ("serving.command=docker run x", "serving.command='docker run x': give a list of words, such as [docker, run,"),
        ("serving.max_lora_rank=24", "not a rank that vLLM takes"),
        ("serving.max_loras=8", "serving.max_cpu_loras=4 is below serving.max_loras=8"),
        ("serving.port=99999", "serving.port: Input should be less than or equal to 65535 (got 99999)"),
        ("data.max_length=4096", "does not fit serving.max_model_len=1024"),
        ("name=SmolLM2", "cannot be an adapter's name"),
        ("name=bot-v2", "kept for versions"),
        ("name=smollm2-135m-instruct", "what the base model answers under"),
        ("gate.judge.modle=x", "unknown key 'gate.judge.modle' (did you mean 'model'?)"),
        ("gate.format.regex=(", "gate.format.regex='(' is no regular expression"),
        ("gate.format.regex=a{99999999999999999999}", "is no regular expression"),
        ("gate.format.share=2", "gate.format.share: Input should be less than or equal to 1 (got 2)"),
        ("gate.judge={model: m}", "key 'gate.judge.url' is missing"),
        ("gate.judge={model: m, url: 'http://'}", "gate.judge.url='http://' is no address"),
        ("gate.judge={model: m, url: 'http://a:99999'}", "is no address such as http://127.0.0.1:8000/v1"),
        ("gate.judge={model: m, url: 'http://[a'}", "is no address"),
        ("gate.judge={model: m, url: 'ftp://a'}", "is no address"),
        ("data.checks.leaked.action=maybe", "data.checks.leaked.action: Input should be 'off', 'warn' or 'refuse'"),
        ("retrain.drift.length=0", "retrain.drift.length: Input should be greater than 0"),
        ("retrain.min_rows=300", "retrain.min_rows=300 is above retrain.max_rows=256"),
        ("score.answers=0", "score.answers=0 leaves gate.stop_rate nothing to measure"),
        ("name.x=1", "name is a value, not a section"),
        ("justakey", "is not of the form a.b=c"),
    ],
)
def test_a_wrong_value_is_named(override: str, message: str) -> None:
    with pytest.raises(PresetError) as caught:
        load_preset("tiny-cpu", [override])
    assert message in str(caught.value)


def test_all_linear_may_stand_in_a_list() -> None:
    assert load_preset("tiny-cpu", ["train.target_modules=[all-linear]"]).train.target_modules == "all-linear"


def test_values_go_over_kept_settings_of_any_size() -> None:
    kept = ServingConfig(port=8001, max_model_len=64, max_lora_rank=8, extra_args=("--x",))
    assert with_serving(kept).serving == kept
    settings = with_serving(kept, ["serving.port=8002"])
    assert settings.serving == kept.model_copy(update={"port": 8002})
    with pytest.raises(PresetError, match=r"unknown key 'serving\.prot'"):
        with_serving(kept, ["serving.prot=1"])


def test_the_rank_may_equal_the_limit() -> None:
    assert load_preset("tiny-cpu", ["train.lora_rank=64", "serving.max_lora_rank=64"]).train.lora_rank == 64


def test_a_file_error_names_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_text("name: bot\ntrain:\n  epochs: 1\n  lora_rnak: 8\n", "utf-8")
    with pytest.raises(PresetError, match=rf"{file}: line 4: unknown key 'train.lora_rnak'"):
        load_preset(str(file))


def test_an_overridden_value_does_not_blame_the_file(tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_text("name: bot\ntrain:\n  epochs: 1\n", "utf-8")
    with pytest.raises(PresetError) as caught:
        load_preset(str(file), ["train.epochs=-1"])
    assert "line" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"name: [\n", "line 2: not YAML"),
        (b"", "holds no settings"),
        (b"- 1\n- 2\n", "holds no settings"),
        (b"name: b\xe9te\n", "not UTF-8: byte 7"),
        (b"base: bundled\n", "key 'name' is missing"),
        (b"name: bot\n" + b"[" * 2000, "not YAML"),
        (b"name: bot\ndata: &x {b: *x}\n", "line 2: unknown key 'data.b'"),
        (b"name: bot\ntrain:\n  seed: 1\n  seed: 2\n", "the key 'train.seed' stands in line 3 and again in line 4"),
        (b"name: bot\nserving:\n  env: {A: x, A: y}\n", "the key 'serving.env.A' stands in line 3"),
    ],
)
def test_a_broken_file_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "my.yaml"
    file.write_bytes(content)
    with pytest.raises(PresetError, match=message):
        load_preset(str(file))


def test_a_byte_order_mark_is_allowed(tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_bytes(b"\xef\xbb\xbfname: bot\n")
    assert load_preset(str(file)).name == "bot"


def test_an_unknown_preset_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(PresetError, match="Did you mean tiny-cpu"):
        load_preset("tiny_cpu")
    with pytest.raises(PresetError, match="is a folder"):
        load_preset(str(tmp_path))
    with pytest.raises(PresetError, match="File name too long"):
        load_preset("x" * 300)
    with pytest.raises(PresetError, match="no preset or readable file"):
        load_preset("a\0b")
