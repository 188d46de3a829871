"""The function that took longer is named by the profiles of two sides, with who calls it, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from causes.profiled import PROGRAM, profiles

from curator_bench.causes import profile_wording
from curator_bench.causes.profile_difference import Certainty, FunctionChange, ProfileDifference, profile_difference
from curator_bench.causes.profile_samples import Kind
from curator_bench.errors import BenchError
from curator_bench.values.profiles import OTHER, WAITING, Profile
from curator_bench.verdict.judgement import Word


def compared(slower: Mapping[str, float], count: int = 2) -> ProfileDifference:
    return profile_difference(profiles(count, seed=1), profiles(count, seed=2, slower=slower))


def only(found: ProfileDifference) -> FunctionChange:
    assert len(found.named) == 1, found.named
    assert found.certainty is Certainty.CERTAIN
    return found.named[0]


def test_a_function_that_computes_longer_is_named_and_not_its_callers() -> None:
    one = only(compared({"main:run;words:clean": 1.3}))
    assert (one.function, one.kind, one.word) == ("words:clean", Kind.COMPUTING, Word.REGRESSION)
    assert one.change == pytest.approx(0.3, abs=0.1)
    assert one.interval[0] < one.added < one.interval[1]
    assert one.total[0] > one.before


def test_a_function_that_waits_longer_is_named() -> None:
    one = only(compared({"main:run;words:read;[waiting]": 1.4}))
    assert (one.function, one.kind) == ("words:read", Kind.WAITING)


def test_of_a_function_that_many_call_the_caller_is_named_with_it() -> None:
    one = only(compared({"main:run;words:write;threading:wait;[waiting]": 1.6}))
    assert (one.function, one.callers[0], one.kind) == ("threading:wait", "words:write", Kind.WAITING)
    one = only(compared({"main:run;words:clean;re:sub": 1.5}))
    assert (one.function, one.callers[0]) == ("re:sub", "words:clean")


def test_a_shared_function_that_is_slower_for_all_its_callers_is_one_cause() -> None:
    one = only(compared({"main:run;words:clean;re:sub": 1.5, "main:run;words:count;re:sub": 1.5}))
    assert (one.function, one.callers) == ("re:sub", ())


def test_a_function_that_calls_itself_is_one_function() -> None:
    slower = {stack: 1.6 for stack in PROGRAM if "tree:walk" in stack}
    one = only(compared(slower))
    assert (one.function, one.callers) == ("tree:walk", ("main:run",))
    assert one.total[0] == pytest.approx(one.before)


def test_new_functions_and_faster_ones_are_named_too() -> None:
    after = [
        Profile(one.profiler, one.unit, one.seconds + 12, {**one.stacks, ("main:run", "log:flush"): 1200})
        for one in profiles(2, seed=2, slower={"main:run;json:dump": 0.3})
    ]
    found = profile_difference(profiles(2, seed=1), after)
    assert [(one.function, one.word) for one in found.named] == [
        ("log:flush", Word.REGRESSION),
        ("json:dump", Word.IMPROVEMENT),
    ]
    json.dumps(profile_wording.document(found), allow_nan=False)
    assert any("new" in row for row in profile_wording.rows(found))


def test_where_nothing_differs_nothing_is_named_and_it_says_what_it_could_have_seen() -> None:
    found = compared({})
    assert (found.named, found.certainty) == ((), Certainty.NOTHING)
    assert 0.1 < found.visible < 0.5
    said = " ".join(profile_wording.conclusion(found))
    assert "no function is named: in a function with 2 % of the run, a change of" in said


def test_a_slower_machine_is_no_function() -> None:
    slower = {stack: 1.1 for stack in PROGRAM if not stack.endswith(WAITING)}
    found = compared(slower, 4)
    assert found.named == ()
    assert found.shared == pytest.approx(0.1, abs=0.03)
    assert "slower alike" in next(profile_wording.conclusion(found))


def test_the_difference_is_explained_by_functions_and_not_by_a_slower_machine() -> None:
    slower_machine = {stack: 1.2 for stack in PROGRAM if not stack.endswith("[waiting]")}
    assert not compared({}).is_explained
    assert not compared(slower_machine).is_explained
    assert compared({"main:run;words:clean": 1.5}).is_explained
    assert compared(slower_machine | {"main:run;words:clean": 2.0}).is_explained


def test_a_function_is_told_from_a_slower_machine() -> None:
    slower = {stack: 1.1 for stack in PROGRAM if not stack.endswith(WAITING)} | {"main:run;words:clean": 1.6}
    assert only(compared(slower, 4)).function == "words:clean"


def test_a_function_that_has_most_of_the_time_does_not_pass_for_a_slower_machine() -> None:
    small: dict[tuple[str, ...], int] = {("main:run", f"small:f{number}"): 150 + number for number in range(5)}
    before = Profile("py-spy", "samples", 100.0, {("main:run", "big:f"): 9000, **small})
    after = Profile("py-spy", "samples", 130.0, {("main:run", "big:f"): 12_000, **small})
    assert [one.function for one in profile_difference([before], [after]).named] == ["big:f"]


def test_with_few_samples_it_says_how_many_more_would_tell() -> None:
    sides = (
        profiles(1, seed=seed, slower=slower, scale=0.06)
        for seed, slower in ((1, {}), (2, {"main:run;words:clean": 1.35}))
    )
    found = profile_difference(*sides)
    assert found.named == ()
    assert found.certainty is Certainty.MORE
    assert found.doubtful
    assert found.doubtful.function == "words:clean"
    assert found.more
    assert "more profile" in " ".join(profile_wording.conclusion(found))


def test_a_function_whose_runs_scatter_more_than_others_is_not_named_for_it() -> None:
    before, after = (
        [
            profiles(1, seed=10 * side + run, slower={"main:run;json:dump": factor})[0]
            for run, factor in enumerate(factors)
        ]
        for side, factors in enumerate([(0.4, 1.9, 0.6, 1.2), (1.8, 0.5, 2.2, 1.6)])
    )
    assert profile_difference(before, after).named == ()


def test_who_waits_for_a_result_comes_after_what_computes_it() -> None:
    found = compared({"main:run;words:clean": 1.5, "main:run;words:send;threading:wait;[waiting]": 1.3})
    assert [one.function for one in found.named] == ["words:clean", "threading:wait"]


def test_bytes_are_compared_without_chance() -> None:
    before = [Profile("memray", "bytes", 1.0, {("main:run", f"a:f{n}"): 1_000_000 * n for n in range(1, 9)})]
    more = {**before[0].stacks, ("main:run", "a:f3"): 6_000_000}
    one = only(profile_difference(before, [Profile("memray", "bytes", 1.1, more)]))
    assert one.function == "a:f3"
    said = "\n".join(profile_wording.conclusion(profile_difference(before, [Profile("memray", "bytes", 1.1, more)])))
    assert "allocating in a:f3" in said
    assert "MiB" in said


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ([], [Profile("py-spy", "samples", 1.0, {("a",): 1})], "no profile before has samples"),
        ([Profile("py-spy", "samples", 1.0, {("a",): 1})], [Profile("py-spy", "samples", 1.0, {})], "no profile after"),
        (
            [Profile("py-spy", "samples", 1.0, {("a",): 1})],
            [Profile("memray", "bytes", 1.0, {("a",): 1})],
            "memray, py-spy",
        ),
    ],
)
def test_profiles_that_cannot_be_compared_are_refused(before: list[Profile], after: list[Profile], said: str) -> None:
    with pytest.raises(BenchError, match=said):
        profile_difference(before, after)


@pytest.mark.parametrize("stacks", [{(OTHER,): 50, (OTHER, WAITING): 3}, {("a:b",): 1}, {("a:b", WAITING): 900}])
def test_profiles_of_hardly_anything_are_no_mistake(stacks: dict[tuple[str, ...], int]) -> None:
    one = [Profile("py-spy", "samples", 1.0, stacks)]
    found = profile_difference(one, one)
    assert found.named == ()
    json.dumps(profile_wording.document(found), allow_nan=False)


def test_whoever_looks_more_often_needs_more_to_be_certain() -> None:
    once, often = (
        profile_difference(profiles(2, seed=1), profiles(2, seed=2, slower={"main:run;words:clean": 1.5}), looks=looks)
        for looks in (1, 12)
    )
    narrow, wide = (only(found).interval for found in (once, often))
    assert wide[0] < narrow[0] < narrow[1] < wide[1]
    assert once.visible < often.visible
