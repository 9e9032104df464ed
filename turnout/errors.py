"""The exceptions that Turnout raises on purpose; anything else is a bug.

TurnoutError                       exit 1
├── BadInput(ValueError)           exit 2
│   ├── DataError
│   └── PresetError
├── NotFound(LookupError)          exit 2
├── Refused                        exit 3
├── RegistryUnavailable(ConnectionError)
├── RegistryConflict
├── ArtifactDamaged
├── ResourceShort(OSError)
├── TrainingFailed(RuntimeError)
├── ScoringFailed(RuntimeError)
├── JudgeFailed(RuntimeError)
└── EngineError(RuntimeError)
    ├── EngineUnreachable(ConnectionError)
    ├── EngineNotReady(TimeoutError)
    ├── LoadRefused
    └── ProofFailed
"""


class TurnoutError(Exception):
    """What went wrong, with the actual value and the limit, and what to do next.

    `kind` is a stable word for programs, `message` and `next_step` are for people.
    """

    kind = "failed"
    exit_code = 1
    may_pass = False
    """Whether the same call may go through a moment later, so that a retry is worth it."""

    def __init__(self, message: str, next_step: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step

    def __str__(self) -> str:
        return f"{self.message}\n{self.next_step}" if self.next_step else self.message

    # Prefect and multiprocessing pickle exceptions; the default rebuilds from `args`, which lacks next_step.
    def __reduce__(self) -> tuple[type["TurnoutError"], tuple[str, str]]:
        return type(self), (self.message, self.next_step)


class BadInput(TurnoutError, ValueError):
    kind = "bad_input"
    exit_code = 2


class DataError(BadInput):
    kind = "bad_data"


class PresetError(BadInput):
    kind = "bad_preset"


class NotFound(TurnoutError, LookupError):
    kind = "not_found"
    exit_code = 2


class Refused(TurnoutError):
    kind = "refused"
    exit_code = 3


class RegistryUnavailable(TurnoutError, ConnectionError):
    kind = "registry_unavailable"
    may_pass = True


class RegistryConflict(TurnoutError):
    kind = "registry_conflict"


class ArtifactDamaged(TurnoutError):
    """What the registry holds is not what was registered."""

    kind = "artifact_damaged"


class ResourceShort(TurnoutError, OSError):
    """Memory, disk, a port or another thing of the machine's that is not to be had."""

    kind = "resource_short"


class TrainingFailed(TurnoutError, RuntimeError):
    kind = "training_failed"


class ScoringFailed(TurnoutError, RuntimeError):
    kind = "scoring_failed"


class JudgeFailed(TurnoutError, RuntimeError):
    """The model that grades answers for the gate does not answer, or not with grades."""

    kind = "judge_failed"
    may_pass = True


class EngineError(TurnoutError, RuntimeError):
    kind = "engine_failed"


class EngineUnreachable(EngineError, ConnectionError):
    kind = "engine_unreachable"
    may_pass = True


class EngineNotReady(EngineError, TimeoutError):
    kind = "engine_not_ready"


class LoadRefused(EngineError):
    kind = "load_refused"


class ProofFailed(EngineError):
    kind = "proof_failed"
