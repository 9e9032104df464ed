"""One real engine on the bundled base for all the tests here, and what they load into it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from data.conversation import Message as Turn
from data.read import read_rows
from data.rows import ScoredRow
from data.tokens import encode, load_tokenizer
from serving.config import GatewayConfig, ServingConfig
from serving.engines import start_engine
from serving.evidence import Evidence
from serving.machine import this_machine
from serving.ports import free_port
from serving.records import Engine
from serving.stack import down
from serving.vllm import resolve_dtype
from tasks.bases import resolve_base
from tests.serving.material import MadeAdapter, make_adapter, place, reference_loss
from turnout.paths import Home
from turnout.references import Base

SAMPLE = Path(__file__).parents[2] / "data" / "samples" / "incidents.jsonl"
CONVERSATIONS: list[list[dict[str, str]]] = [
    [{"role": "user", "content": "What is a champion?"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "OOMKilled, exit code 137"}],
    [{"role": "system", "content": ""}, {"role": "user", "content": "an empty system turn"}],
    [{"role": "user", "content": "연결이 거부되었습니다: 포트 5432"}],
    [{"role": "user", "content": "🚂 switched 🔥"}],
    [{"role": "user", "content": "  spaces before and after   \n"}],
    [
        {"role": "user", "content": "disk full"},
        {"role": "assistant", "content": "Which disk?"},
        {"role": "user", "content": "/var"},
    ],
]


@dataclass(frozen=True)
class Workshop:
    """A home with a running engine, its base, and two sound adapters."""

    home: Home
    config: ServingConfig
    base: Base
    engine: Engine
    one: MadeAdapter
    other: MadeAdapter

    def make(self, folder: Path, **settings: object) -> MadeAdapter:
        made = make_adapter(folder, Path(self.base.path), **settings)  # type: ignore[arg-type]
        return place(made, self.home.adapters)


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    root = tmp_path_factory.mktemp("serving")
    home = Home(root / "home")
    base = resolve_base("bundled")
    gateway = GatewayConfig(port=free_port("127.0.0.1"))
    config = ServingConfig(port=free_port("127.0.0.1"), max_lora_rank=8, gateway=gateway)
    adapters = [
        place(make_adapter(root / f"{seed}", Path(base.path), scale=0.05, seed=seed), home.adapters) for seed in (1, 2)
    ]
    try:
        yield Workshop(home, config, base, start_engine(home, base, config, 8), *adapters)
    finally:
        down(home)


@pytest.fixture(scope="session")
def evidence(workshop: Workshop) -> Evidence:
    """What training would say of `workshop.one`: sample rows, ids of probes, and the loss by Transformers."""
    tokenizer = load_tokenizer(workshop.base.path)

    def scored(turns: Sequence[Turn]) -> ScoredRow:
        encoded = encode(turns, tokenizer)
        return ScoredRow("", encoded.input_ids, encoded.loss_mask, [turn.as_dict() for turn in turns])

    rows = [scored(row.messages) for row in read_rows(SAMPLE).rows[:6]]
    probes = [
        (messages, scored([*(Turn(**turn) for turn in messages), Turn("assistant", "An answer.")]).prompt_ids)
        for messages in CONVERSATIONS
    ]
    dtype = resolve_dtype(workshop.config, this_machine())
    nats = reference_loss(Path(workshop.base.path), workshop.one.folder, rows, dtype)
    return Evidence(rows, nats, lambda: probes, tolerance=0.02)
