"""A difference of two sides is explained by the stage that does more work, and nothing else is blamed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from causes.pipelines import SECONDS, renamed, runs
from simulated_pipelines import Case, sides

from curator_bench.causes import stage_wording
from curator_bench.causes.explanation import Explanation, StageChange, explain
from curator_bench.causes.matched_stages import Presence, StagedRun
from curator_bench.causes.wall_time import Shape
from curator_bench.errors import BenchError
from curator_bench.values.stages import Stage, StageKind
from curator_bench.verdict.judgement import Word

NAMES = [f"stage_{number}" for number in range(len(SECONDS))]


def named(found: Explanation) -> list[str]:
    return [stage.name for stage in found.named]


def stage_of(found: Explanation, name: str) -> StageChange:
    return next(stage for stage in found.stages if stage.name == name)


@pytest.mark.parametrize("guilty", range(len(SECONDS)))
def test_in_a_serial_pipeline_the_slower_stage_is_named_with_all_of_the_difference(guilty: int) -> None:
    found = explain(runs(8), runs(8, slower={guilty: 1.2}, seed=1))
    assert named(found) == [f"stage_{guilty}"]
    assert found.shapes == (Shape.SERIAL,) * len(SECONDS)
    part = stage_of(found, f"stage_{guilty}").wall
    assert part
    assert part.value == pytest.approx(found.wall.value, abs=0.02 * found.wall.before)
    assert abs(found.unexplained.value) < 0.01 * found.wall.before


def test_in_a_stream_the_bottleneck_takes_the_time_and_the_others_only_wait() -> None:
    found = explain(runs(8, "streaming"), runs(8, "streaming", slower={1: 1.2}, seed=1))
    assert named(found) == ["stage_1"]
    assert found.shapes == (Shape.STREAMING,)
    guilty = found.stages[0]
    assert guilty.limits == (True, True)
    assert guilty.wall
    assert guilty.wall.value == pytest.approx(found.wall.value, rel=0.15)
    assert all(stage.wall is None for stage in found.stages[1:])
    said = list(stage_wording.consequences(found))
    assert any("stage_0 was held back" in line for line in said)
    assert not any("stage_0" in line for line in stage_wording.conclusion(found))


def test_a_stage_that_does_not_limit_the_stream_is_named_and_costs_no_time() -> None:
    found = explain(runs(8, "streaming"), runs(8, "streaming", slower={2: 1.3}, seed=1))
    assert named(found) == ["stage_2"]
    assert found.stages[0].wall is None
    assert found.change.word is Word.NO_CHANGE
    (line,) = stage_wording.conclusion(found)
    assert "none of the time, as another stage limits the pipeline" in line


def test_a_stage_that_becomes_the_bottleneck_costs_only_what_it_exceeds_the_old_one_by() -> None:
    found = explain(runs(8, "streaming"), runs(8, "streaming", slower={4: 2.0}, seed=1))
    assert named(found) == ["stage_4"]
    guilty = found.stages[0]
    assert guilty.limits == (False, True)
    assert guilty.wall
    assert guilty.wall.value == pytest.approx(found.wall.value, rel=0.15)
    assert guilty.wall.value < 0.7 * guilty.gained_work_s


def test_where_all_stages_share_the_cpus_work_costs_its_share_of_them() -> None:
    found = explain(runs(8, "shared"), runs(8, "shared", slower={2: 1.4}, seed=1))
    assert named(found) == ["stage_2"]
    assert found.shapes == (Shape.SHARED,)
    guilty = found.stages[0]
    assert guilty.wall
    assert guilty.wall.value == pytest.approx(guilty.gained_work_s / 3, rel=0.01)
    assert abs(found.unexplained.value) < 0.03 * found.wall.before


def test_no_stage_costs_more_time_than_its_own_work_gained() -> None:
    """Here another stage that is nearly a bottleneck would explain the time as well, though its work did not grow."""
    before, after, guilty = sides(np.random.default_rng([6, 1]), Case("streaming"))
    found = explain(before, after)
    assert [stage.name for stage in found.stages if stage.wall] == [guilty]
    assert named(found)[0] == guilty


def test_an_improvement_is_named_too() -> None:
    found = explain(runs(8), runs(8, slower={3: 0.7}, seed=1))
    assert named(found) == ["stage_3"]
    assert found.stages[0].word is Word.IMPROVEMENT


def test_a_slower_machine_is_no_fault_of_any_stage() -> None:
    found = explain(runs(8), runs(8, slower=dict.fromkeys(range(5), 1.15), seed=1))
    assert named(found) == []
    assert found.shared
    assert found.shared.word is Word.REGRESSION
    assert found.shared.change == pytest.approx(0.15, abs=0.02)
    assert "most stages are slower alike" in next(stage_wording.conclusion(found))


def test_where_nothing_differs_nothing_is_named() -> None:
    found = explain(runs(8), runs(8, seed=1))
    assert named(found) == []
    assert {stage.word for stage in found.stages} == {Word.NO_CHANGE}
    assert list(stage_wording.conclusion(found)) == ["no stage is named: the time did not change"]


@pytest.mark.parametrize("count", [1, 2])
def test_with_too_few_runs_everything_is_inconclusive_and_it_says_how_many_more_would_tell(count: int) -> None:
    found = explain(runs(count), runs(count, slower={0: 1.5}, seed=1))
    assert {stage.word for stage in found.stages} == {Word.INCONCLUSIVE}
    assert all(stage.work and stage.work.interval is None for stage in found.stages)
    more = 3 - count
    assert found.decides.startswith(f"{more} more run{'s' if more > 1 else ''} on each side at least")


def test_only_the_side_with_too_few_runs_is_said_to_need_more() -> None:
    for counts, side in (((8, 2), "later"), ((2, 8), "earlier")):
        found = explain(runs(counts[0]), runs(counts[1], slower={0: 1.5}, seed=1))
        assert found.decides.startswith(f"1 more run on the {side} side at least")


def test_the_runs_that_are_said_to_tell_do_tell() -> None:
    few = explain(runs(3, noise=0.05), runs(3, slower={1: 1.2}, seed=5, noise=0.05))
    assert named(few) == []
    more = int(few.decides.split()[0])
    assert "stage_1" in few.decides
    told = sum(
        named(
            explain(runs(3 + more, seed=seed, noise=0.05), runs(3 + more, slower={1: 1.2}, seed=seed + 99, noise=0.05))
        )
        == ["stage_1"]
        for seed in range(10)
    )
    assert told >= 6


def test_new_gone_and_renamed_stages_are_said_as_such() -> None:
    before = renamed(runs(8), {"stage_2": "clean"})
    after = renamed(runs(8, slower={2: 1.5}, seed=1), {"stage_2": "clean_html"})
    found = explain(before, after)
    one = stage_of(found, "clean → clean_html")
    assert one.match.presence is Presence.RENAMED
    assert named(found) == ["clean → clean_html"]
    without = [replace(run, stages=run.stages[:-1]) for run in runs(8, seed=2)]
    assert stage_of(explain(without, runs(8)), "stage_4").match.presence is Presence.NEW
    gone = stage_of(explain(runs(8), without), "stage_4")
    assert gone.match.presence is Presence.GONE
    assert gone.word is None
    assert gone.wall
    assert gone.wall.value < 0


def test_stages_that_are_fused_differently_are_compared_as_a_whole() -> None:
    def fused(run: StagedRun, first: int) -> StagedRun:
        one, other = run.stages[first : first + 2]
        both = replace(
            one,
            name=f"{one.name}->{other.name}",
            parts=(one.name, other.name),
            ended_s=other.ended_s,
            executing_s=(one.executing_s or 0) + (other.executing_s or 0),
            active_s=(one.active_s or 0) + (other.active_s or 0),
        )
        return replace(run, stages=(*run.stages[:first], both, *run.stages[first + 2 :]))

    before = [fused(run, 1) for run in runs(8)]
    after = [fused(run, 2) for run in runs(8, slower={1: 1.3}, seed=1)]
    found = explain(before, after)
    one = stage_of(found, "stage_1->stage_2 + stage_3 → stage_1 + stage_2->stage_3")
    assert one.match.presence is Presence.FUSED
    assert named(found) == [one.name]
    assert one.wall
    assert one.wall.value == pytest.approx(found.wall.value, rel=0.1)


def test_phases_that_follow_each_other_have_each_their_own_bottleneck() -> None:
    def twice(one: StagedRun, other: StagedRun) -> StagedRun:
        end = one.wall_s
        later = tuple(
            replace(
                stage,
                name=f"late_{stage.name}",
                started_s=(stage.started_s or 0) + end,
                ended_s=(stage.ended_s or 0) + end,
            )
            for stage in other.stages
        )
        return replace(one, stages=(*one.stages, *later), wall_s=end + other.wall_s)

    before = [twice(*pair) for pair in zip(runs(8, "streaming"), runs(8, "streaming", seed=3), strict=True)]
    slower = runs(8, "streaming", slower={1: 1.3}, seed=2)
    after = [twice(*pair) for pair in zip(runs(8, "streaming", seed=1), slower, strict=True)]
    found = explain(before, after)
    assert found.shapes == (Shape.STREAMING, Shape.STREAMING)
    assert named(found) == ["late_stage_1"]
    part = found.stages[0].wall
    assert part
    assert part.value == pytest.approx(found.wall.value, rel=0.15)


def test_a_stage_inside_another_is_not_counted_twice() -> None:
    def nested(inner: float, seed: int) -> StagedRun:
        noise = np.random.default_rng(seed).normal(1, 0.01, 2)
        outer, inner = 1.0 * noise[0], inner * noise[1]
        both: dict[str, Any] = {"kind": StageKind.STEP, "count": 4, "started_s": 0.1}
        stages = [
            Stage(name="outer", active_s=outer + inner, ended_s=0.1 + outer + inner, executing_s=outer, **both),
            Stage(name="inner", active_s=inner, ended_s=inner + 0.5, executing_s=inner, **both),
        ]
        return StagedRun(stages=stages, wall_s=outer + inner + 0.2)

    found = explain([nested(2.0, seed) for seed in range(8)], [nested(2.6, 9 + seed) for seed in range(8)])
    assert named(found) == ["inner"]
    assert found.shapes == (Shape.SERIAL,)
    assert abs(found.unexplained.value) < 0.01
    part = found.stages[0].wall
    assert part
    assert part.value == pytest.approx(0.6, abs=0.05)


def test_a_step_of_the_script_that_waits_for_tasks_is_no_suspect() -> None:
    def within(run: StagedRun) -> StagedRun:
        tasks = [replace(stage, kind=StageKind.TASK) for stage in run.stages]
        long = run.wall_s - 2.5
        step = Stage(
            name="crawl",
            kind=StageKind.STEP,
            count=1,
            started_s=2.0,
            ended_s=2.0 + long,
            active_s=long,
            executing_s=long,
        )
        return replace(run, stages=[step, *tasks])

    found = explain(
        [within(run) for run in runs(8, "streaming")],
        [within(run) for run in runs(8, "streaming", slower={1: 1.3}, seed=1)],
    )
    assert named(found) == ["stage_1"]
    assert found.stages[0].wall
    step = stage_of(found, "crawl")
    assert (step.word, step.wall) == (None, None)
    assert list(stage_wording.notes(step)) == ["waits for the stages in it"]


def test_unknown_figures_stay_unknown_and_are_not_taken_for_zero() -> None:
    def bare(seconds: float, seed: int) -> StagedRun:
        random = np.random.default_rng(seed)
        times = [1.0 * random.normal(1, 0.01), seconds * random.normal(1, 0.01)]
        stages = [
            Stage(name=name, kind=StageKind.TASK, count=5, executing_s=one)
            for name, one in zip("ab", times, strict=True)
        ]
        return StagedRun(stages=stages, wall_s=sum(times))

    found = explain([bare(1.0, seed) for seed in range(8)], [bare(1.3, 9 + seed) for seed in range(8)])
    assert named(found) == ["b"]
    assert (found.stages[0].wall, found.shapes) == (None, ())
    assert found.stages[0].after.waiting_s is None
    assert "its part of the time is unknown" in next(stage_wording.conclusion(found))
    assert list(stage_wording.consequences(found)) == []


def test_a_stage_that_takes_next_to_nothing_is_not_named_when_it_doubles() -> None:
    def with_micro(run: StagedRun, seconds: float) -> StagedRun:
        micro = Stage(
            name="list",
            kind=StageKind.OPERATOR,
            count=1,
            started_s=0.0,
            ended_s=seconds,
            active_s=seconds,
            executing_s=seconds,
        )
        return replace(run, stages=(micro, *run.stages))

    found = explain([with_micro(run, 0.01) for run in runs(8)], [with_micro(run, 0.02) for run in runs(8, seed=1)])
    assert named(found) == []


def test_a_side_without_stages_cannot_be_explained() -> None:
    with pytest.raises(BenchError, match="no run before has recorded stages"):
        explain([StagedRun(stages=(), wall_s=1.0)], runs(1))


def test_the_change_is_that_of_the_means_beside_it_also_with_an_outlier() -> None:
    late = runs(8, slower={2: 1.3}, seed=1)
    odd = replace(late[0].stages[2], executing_s=5 * (late[0].stages[2].executing_s or 0.0))
    late[0] = replace(late[0], stages=(*late[0].stages[:2], odd, *late[0].stages[3:]), wall_s=2 * late[0].wall_s)
    found = explain(runs(8), late)
    for stage in found.stages:
        assert stage.work
        assert stage.before.work_s
        assert stage.after.work_s
        assert stage.work.change == pytest.approx(stage.after.work_s / stage.before.work_s - 1)
    assert found.change.change == pytest.approx(found.wall.after / found.wall.before - 1)


def test_the_start_of_actors_and_tiny_stages_hide_no_cause() -> None:
    random = np.random.default_rng(5)

    def with_starts(found: list[StagedRun]) -> list[StagedRun]:
        made = []
        for run in found:
            starts = [
                replace(
                    run.stages[0],
                    name=f"Actor{number}.__init__",
                    kind=StageKind.ACTOR,
                    count=1,
                    executing_s=1e-5 * float(random.lognormal(0, 1)),
                    reading_s=20 * float(random.lognormal(0, 1)),
                    active_s=1e-5,
                )
                for number in range(7)
            ]
            made.append(replace(run, stages=(*run.stages, *starts)))
        return made

    found = explain(with_starts(runs(4)), with_starts(runs(4, slower={2: 1.3}, seed=1)))
    assert named(found) == ["stage_2"]
    assert "too short to matter" in list(stage_wording.notes(stage_of(found, "Actor0.__init__")))


def with_moving(found: list[StagedRun], seed: int, slower: float = 1.0, scatter: float = 1.0) -> list[StagedRun]:
    """As on fresh workers: reading arguments takes longer than the work, and differs much from run to run."""
    random = np.random.default_rng(seed)

    def moved(stage: Stage, number: int) -> Stage:
        reading = 3 * (stage.executing_s or 0.0) * float(random.lognormal(0, scatter))
        return replace(stage, reading_s=reading * (slower if number == 1 else 1.0), storing_s=0.01)

    return [
        replace(run, stages=tuple(moved(stage, number) for number, stage in enumerate(run.stages))) for run in found
    ]


def test_a_slow_start_of_workers_hides_no_slower_function() -> None:
    found = explain(with_moving(runs(8), 3), with_moving(runs(8, slower={2: 1.2}, seed=1), 4))
    assert named(found) == ["stage_2"]
    assert not stage_of(found, "stage_2").is_moving_named


def test_a_stage_whose_arguments_grew_is_named_for_moving_its_data() -> None:
    found = explain(with_moving(runs(8), 3, scatter=0.05), with_moving(runs(8, seed=1), 4, slower=2.0, scatter=0.05))
    assert named(found) == ["stage_1"]
    guilty = stage_of(found, "stage_1")
    assert guilty.work
    assert guilty.work.word == "no change"
    assert any(line.startswith("regression: moving the data of stage_1 +") for line in stage_wording.conclusion(found))
    assert any(note.startswith("reading arguments and storing results ") for note in stage_wording.notes(guilty))
    assert stage_wording.document(found)["stages"][0]["moving"]["verdict"] == "regression"
