"""Profiles as text: what is written is read back, and what others write is read as far as it is sound."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator_bench.profiles import (
    DEEPEST_STACK,
    bounded,
    clean_stack,
    collapsed,
    profile_of_speedscope,
    speedscope,
    stacks_of,
)
from curator_bench.values import OTHER, WAITING, Profile

FRAMES = st.text(min_size=1).map(lambda text: clean_stack([text])[0])
STACKS = st.dictionaries(
    st.lists(FRAMES, min_size=1, max_size=6).map(tuple), st.integers(min_value=1, max_value=10**12), max_size=8
)


@given(STACKS)
def test_stacks_survive_both_texts(stacks: dict[tuple[str, ...], int]) -> None:
    assert stacks_of(collapsed(stacks)) == stacks
    profile = Profile("py-spy", "samples", 1.5, stacks)
    assert profile_of_speedscope(speedscope(profile, "name")) == profile


def test_a_frame_with_what_separates_frames_is_one_frame() -> None:
    assert clean_stack(["a;b\nc", " "]) == ("a,b c", "?")
    assert stacks_of("a;b 3\nnonsense\nb x\n\na;b 4\nc 0\n") == {("a", "b"): 7}


def test_the_middle_of_a_deep_stack_is_left_out_and_how_it_ends_stays() -> None:
    deep = clean_stack([*(f"f{number}" for number in range(5000)), WAITING])
    assert (len(deep), deep[0], deep[-2], deep[-1]) == (DEEPEST_STACK, "f0", "f4999", WAITING)


def test_rare_stacks_of_a_bounded_profile_are_counted_together() -> None:
    stacks = {("a", f"f{number}", *([WAITING] if number % 2 else [])): 10 + number for number in range(100)}
    found = bounded(Profile("p", "samples", 1.0, stacks), most_stacks=90)
    assert found.total == sum(stacks.values())
    assert {stack: found.stacks[stack] for stack in ((OTHER,), (OTHER, WAITING))} == {
        (OTHER,): 10 + 12 + 14 + 16 + 18,
        (OTHER, WAITING): 11 + 13 + 15 + 17 + 19,
    }


def test_a_profile_of_another_tool_is_read_by_its_samples() -> None:
    said = {
        "shared": {"frames": [{"name": "main"}, {"name": "work"}]},
        "profiles": [
            {"type": "sampled", "unit": "seconds", "samples": [[0, 1], [0, 1], [0]], "weights": [0.01, 0.01, 0.01]},
            {"type": "evented", "unit": "seconds", "events": []},
        ],
    }
    found = profile_of_speedscope(json.dumps(said), "other", 2.0)
    assert found == Profile("other", "samples", 2.0, {("main", "work"): 2, ("main",): 1})


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"shared": {"frames": [{}]}, "profiles": []}', "[" * 100_000])
def test_a_text_that_is_no_profile_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"speedscope|Expecting"):
        profile_of_speedscope(text)
