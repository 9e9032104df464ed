import pytest
from prefect.states import Failed

from tasks.config import TrainConfig, train_settings
from tasks.stage import can_pass
from turnout import errors


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errors.RegistryUnavailable("MLflow is away"), True),
        (errors.EngineUnreachable("the engine does not answer"), True),
        (errors.EngineError("it serves another base"), False),
        (errors.EngineNotReady("it ended"), False),
        (errors.LoadRefused("rank too high"), False),
        (errors.ProofFailed("no effect"), False),
        (errors.DataError("line 3"), False),
        (ValueError("a bug"), False),
    ],
)
def test_only_what_may_pass_is_tried_again(error: Exception, expected: bool) -> None:
    assert can_pass(Failed(data=error)) is expected


def test_settings_that_do_not_change_the_result_do_not_count() -> None:
    config = TrainConfig()
    assert train_settings(config) == train_settings(config.model_copy(update={"checkpoint_every_steps": 3}))
    assert train_settings(config) != train_settings(config.model_copy(update={"seed": 1}))
