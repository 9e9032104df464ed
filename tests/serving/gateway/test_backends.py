"""`backend: auto`: the rules, and what holds for every request and every load."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.gateway.backends import (
    KINDS,
    LLAMA_CPP,
    VLLM,
    Backend,
    RoutingConfig,
    Wanted,
    choose_backend,
    count_words,
)

RULES = RoutingConfig()

wants = st.builds(
    Wanted,
    words=st.integers(0, 300),
    max_tokens=st.none() | st.integers(1, 4096),
    urgency=st.sampled_from(["high", "normal", "low"]),
)
loads = st.floats(0, 3)


def seen(kind: str) -> st.SearchStrategy[Backend]:
    return st.builds(Backend, st.just(kind), able=st.booleans(), load=loads, full=st.booleans())


def chosen(vllm: float | None = 0.0, llama: float | None = 0.0, **wanted: object) -> tuple[str, str]:
    """The kind and the reason at these loads; None: it cannot answer."""
    both = [Backend(VLLM, vllm is not None, vllm or 0), Backend(LLAMA_CPP, llama is not None, llama or 0)]
    choice = choose_backend(Wanted(**wanted), both, RULES)  # type: ignore[arg-type] # keywords of a test's own
    assert choice
    return choice.kind, choice.why


@pytest.mark.parametrize(
    ("wanted", "vllm", "llama", "kind", "why"),
    [
        ({}, 0.0, 0.0, VLLM, "default"),
        ({}, 1.0, 0.0, VLLM, "default"),
        ({}, 1.1, 0.0, LLAMA_CPP, "requests wait on vllm"),
        ({}, 1.1, 1.1, VLLM, "default"),
        ({"words": 100}, 5.0, 6.0, VLLM, "default"),
        ({"words": 101}, 5.0, 0.0, VLLM, "long prompt"),
        ({"words": 101, "urgency": "high"}, 5.0, 0.0, VLLM, "long prompt"),
        ({"max_tokens": 1024, "urgency": "high"}, 0.7, 0.0, LLAMA_CPP, "urgent, vllm is busy"),
        ({"max_tokens": 1025, "urgency": "high"}, 0.7, 0.0, VLLM, "long answer"),
        ({"urgency": "high"}, 0.69, 0.0, VLLM, "urgent, and vllm has room"),
        ({"urgency": "high"}, 0.7, 0.7, LLAMA_CPP, "urgent, vllm is busy"),
        ({"urgency": "high"}, 0.8, 0.9, VLLM, "vllm has the lower load"),
        ({"urgency": "low"}, 0.7, 0.0, VLLM, "default"),
        ({"urgency": "low"}, 0.71, 0.9, LLAMA_CPP, "can wait"),
        ({"words": 500}, None, 0.0, LLAMA_CPP, "no other kind"),
        ({"urgency": "high"}, 3.0, None, VLLM, "no other kind"),
    ],
)
def test_the_rules(wanted: dict[str, object], vllm: float | None, llama: float | None, kind: str, why: str) -> None:
    found = chosen(vllm, llama, **wanted)
    assert found[0] == kind
    assert why in found[1]


def test_the_thresholds_are_settings() -> None:
    both = [Backend(VLLM, able=True, load=0.5), Backend(LLAMA_CPP, able=True)]
    rules = RoutingConfig(urgent_load=0.5, long_prompt_words=3)
    choice = choose_backend(Wanted(urgency="high"), both, rules)
    assert choice and choice.kind == LLAMA_CPP
    assert "limit 0.5" in choice.why
    choice = choose_backend(Wanted(words=4, urgency="high"), both, rules)
    assert choice and choice.kind == VLLM


def test_a_full_queue_leaves_the_request_to_the_other_kind() -> None:
    full = [Backend(VLLM, able=True, load=9, full=True), Backend(LLAMA_CPP, able=True)]
    choice = choose_backend(Wanted(words=500), full, RULES)
    assert choice and choice.kind == LLAMA_CPP
    assert "full" in choice.why
    both = [replace(each, full=True) for each in full]
    assert choose_backend(Wanted(), both, RULES) is not None


@settings(deadline=None)
@given(wants, st.permutations(KINDS).flatmap(lambda kinds: st.tuples(*map(seen, kinds))))
def test_who_is_chosen_can_answer(wanted: Wanted, backends: tuple[Backend, ...]) -> None:
    choice = choose_backend(wanted, backends, RULES)
    able = {each.kind: each for each in backends if each.able}
    if choice is None:
        assert not able
    else:
        assert choice.kind in able
        assert choice.why
        if able[choice.kind].full:
            assert all(each.full for each in able.values())


@settings(deadline=None)
@given(wants, seen(VLLM), seen(LLAMA_CPP), st.sampled_from(KINDS), st.floats(0, 3))
def test_more_load_draws_no_request(wanted: Wanted, vllm: Backend, llama: Backend, kind: str, more: float) -> None:
    before = choose_backend(wanted, [vllm, llama], RULES)
    busier = [replace(each, load=each.load + more) if each.kind == kind else each for each in (vllm, llama)]
    after = choose_backend(wanted, busier, RULES)
    if before is not None and after is not None and after.kind != before.kind:
        assert before.kind == kind


@pytest.mark.parametrize(
    ("prompt", "words"),
    [("", 0), ("one two  three\n", 3), ("word " * 100, 100), ("x" * 800, 100), ("\u5e30" * 300, 112)],
)
def test_words_are_counted_where_there_are_spaces_and_where_there_are_none(prompt: str, words: int) -> None:
    assert count_words(prompt) == words
