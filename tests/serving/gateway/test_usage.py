"""Token counts are found in bytes, and streams pass unchanged but for the chunk that nobody asked for."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.gateway.usage import EventFilter, find_usage
from tests.serving.gateway.stub_engine import event, plain, usage_event

DONE = b"data: [DONE]\n\n"
CHUNKS = event("m", 0) + event("m", 1)
WHOLE = CHUNKS + usage_event("m") + DONE
cuts = st.lists(st.integers(0, len(WHOLE)), max_size=12)


def feed(events: EventFilter, stream: bytes, at: list[int]) -> bytes:
    ends = [*sorted(at), len(stream)]
    starts = [0, *ends[:-1]]
    return b"".join(events.feed(stream[start:end]) for start, end in zip(starts, ends, strict=True)) + events.rest()


@settings(deadline=None)
@given(cuts)
def test_the_usage_chunk_is_dropped_wherever_the_reads_split(at: list[int]) -> None:
    events = EventFilter(keep_usage=False)
    assert feed(events, WHOLE, at) == CHUNKS + DONE
    assert events.usage == (7, 5)
    assert events.done


@settings(deadline=None)
@given(cuts)
def test_what_the_client_asked_for_is_kept(at: list[int]) -> None:
    events = EventFilter(keep_usage=True)
    assert feed(events, WHOLE, at) == WHOLE
    assert events.usage == (7, 5)


def test_whole_events_do_not_wait_for_the_next() -> None:
    events = EventFilter(keep_usage=False)
    assert events.feed(event("m", 0) + event("m", 1)[:20]) == event("m", 0)
    assert events.feed(event("m", 1)[20:]) == event("m", 1)


def test_events_may_end_in_carriage_returns() -> None:
    stream = WHOLE.replace(b"\n", b"\r\n")
    events = EventFilter(keep_usage=False)
    assert feed(events, stream, [50, 300]) == (CHUNKS + DONE).replace(b"\n", b"\r\n")


def test_usage_in_every_chunk_drops_none_that_has_choices() -> None:
    chunk = b'data: {"choices":[{"delta":{"content":"x"}}],"usage":{"prompt_tokens":3,"completion_tokens":1}}\n\n'
    events = EventFilter(keep_usage=False)
    assert events.feed(chunk) == chunk
    assert events.usage == (3, 1)


def test_an_error_of_the_engine_is_seen() -> None:
    events = EventFilter(keep_usage=False)
    events.feed(event("m", 0))
    assert not events.failed
    events.feed(b'data: {"error": {"message": "out of memory"}}\n\n')
    assert events.failed


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        (plain("m"), (7, 5)),
        (b'{"usage": {"prompt_tokens": 3, "completion_tokens": null}}', (3, 0)),
        (b'{"usage":null}', None),
        (b'{"text":"\\"usage\\":{\\"prompt_tokens\\":1}"}', None),
        (b"", None),
    ],
)
def test_tokens_of_a_plain_answer(body: bytes, tokens: tuple[int, int] | None) -> None:
    assert find_usage(body) == tokens
