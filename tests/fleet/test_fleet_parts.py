"""What a fleet computes without Ray: slices, what a node holds, what is left out, what is relocated and packed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from curator_bench.execution.failed import failed_before_it_began
from curator_bench.fleet.baggage import (
    Found,
    _collected,
    bring_home,
    digest_of,
    pack,
    relocated,
    runtime_env,
    unpacked,
)
from curator_bench.fleet.board import Board
from curator_bench.fleet.fleet import Fleet, FleetSettings
from curator_bench.fleet.gpus import GpuWatch
from curator_bench.fleet.left_out import LeftOut
from curator_bench.fleet.model import Node, Nodes, Slice, Where
from curator_bench.fleet.slices import capacity, fits, largest, slice_of, within
from curator_bench.values import Cause, Plan, RaySettings, RunResult, Verdict

GIB = 1 << 30
STAMP = "2026-01-23T14:30:00+00:00"


def node(name: str = "n", **resources: float) -> Node:
    return Node(name, name, "192.0.2.1", resources)


def plan(**settings: object) -> Plan:
    ray = RaySettings(**settings)  # type: ignore[arg-type]
    return Plan(
        "e",
        "s",
        "/results/s",
        "/results/s/e",
        "python",
        "/work/x.py",
        ("/work/in", "-o", "/results/s/e"),
        "/work",
        ray=ray,
    )


@pytest.mark.parametrize(
    ("settings", "runs_per_gpu", "expected"),
    [
        (None, 1, Slice(1, 0)),
        (RaySettings(), 1, Slice(1, 0)),
        (RaySettings(num_cpus=0.5, num_gpus=0.25), 1, Slice(0.5, 0.25)),
        (RaySettings(num_gpus=1), 4, Slice(1, 0.25)),
        (RaySettings(num_gpus=2), 4, Slice(1, 2)),
        (RaySettings(num_cpus=8, memory=GIB, resources={"disk": 1}), 1, Slice(8, 0, GIB, {"disk": 1})),
        (RaySettings(num_cpus=8, address="192.0.2.1:6379"), 1, Slice(1, 0)),
    ],
)
def test_a_slice_is_what_the_ray_block_asks_for(
    settings: RaySettings | None, runs_per_gpu: int, expected: Slice
) -> None:
    assert slice_of(settings, runs_per_gpu) == expected


def test_capacity_is_by_what_runs_out_first() -> None:
    nodes = [node(CPU=8, GPU=2, memory=64 * GIB), node(CPU=3, memory=2 * GIB)]
    assert capacity(Slice(2), nodes) == 5
    assert capacity(Slice(1, 0.25), nodes) == 8
    assert capacity(Slice(1, 0, GIB), nodes) == 10
    assert capacity(Slice(0, 0), nodes) == 2
    assert not fits(Slice(1, 0, None, {"disk": 1}), nodes[0])
    assert largest(nodes) is nodes[0]
    assert largest([]) is None


def test_messages_tell_memory_in_gib() -> None:
    assert str(Slice(1, 0, 1 << 40)) == "CPU: 1, memory: 1024 GiB"
    assert str(node(CPU=2, memory=21.5 * GIB)) == "n (CPU: 2, memory: 21.5 GiB)"


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="there is a driver")
def test_a_gpu_that_nobody_could_look_at_is_a_warning() -> None:
    watch = GpuWatch({"CUDA_VISIBLE_DEVICES": "0"}, is_shared=False, threshold=None)
    watch.check()
    assert "no NVIDIA driver answers" in watch.seen(failed_before_it_began(plan(), "", Cause.GPU)).warnings[0]


@pytest.mark.parametrize("count", [1, 2, 8])
def test_clusters_that_share_a_node_do_not_overfill_it(count: int) -> None:
    wanted = Slice(num_cpus=8 / count)
    each = within(plan(object_store_size=0.5), wanted, 8, 64 * GIB, 20 * GIB).ray
    assert each is not None
    assert each.memory is not None
    assert isinstance(each.object_store_size, int)
    assert count * each.object_store_size <= 20 * GIB
    assert count * (each.memory + each.object_store_size) <= 64 * GIB
    assert each.num_cpus == 8 / count


def test_a_fraction_of_the_object_store_is_of_what_the_entry_asks_for() -> None:
    found = within(plan(object_store_size=0.5), Slice(1, 0, 4 * GIB), 8, 64 * GIB, None).ray
    assert found is not None
    assert (found.memory, found.object_store_size) == (4 * GIB, 2 * GIB)


def test_two_different_entries_leave_a_node_out_but_never_the_last() -> None:
    left_out, nodes = LeftOut(), [node("a"), node("b")]
    for entry in ("one", "one"):
        left_out.note(entry, Where("a", "host-a"), Cause.NODE, nodes)
    assert not left_out.nodes
    left_out.note("two", Where("a", "host-a"), Cause.CLUSTER, nodes)
    assert left_out.nodes == {"a"}
    for entry in ("one", "two"):
        left_out.note(entry, Where("b", "host-b"), Cause.NODE, nodes)
    assert left_out.nodes == {"a"}
    assert [line for line in left_out.told() if "host-a" in line and "one, two" in line]


def test_a_gpu_is_left_out_once_and_its_node_is_not() -> None:
    left_out, where = LeftOut(), Where("a", "host-a", ("3",))
    answers = [left_out.note(entry, where, Cause.GPU, [node("a"), node("b")]) for entry in ("one", "two", "three")]
    assert answers == [[], ["3"], []]
    assert left_out.gpus == {"a": {"3"}}
    assert not left_out.nodes


def test_the_board_knows_at_once_which_gpus_two_entries_were_refused() -> None:
    async def told() -> list[frozenset[str]]:
        board = Board()
        for entry in ("one", "one", "two"):
            await board.refused("a", ["3"], entry)
        await board.refused("a", ["4"], "one")
        return [await board.gpus_left_out("a"), await board.gpus_left_out("b")]

    assert asyncio.run(told()) == [{"3"}, frozenset()]


def test_paths_of_a_plan_are_those_of_the_machine_and_come_back() -> None:
    moved = {"/work": "/tmp/ray/work", "/results/s": "/tmp/away"}
    there = relocated(plan(), moved)
    assert (there.script, there.args) == ("/tmp/ray/work/x.py", ("/tmp/ray/work/in", "-o", "/tmp/away/e"))
    stays = relocated(plan(), {"/results": "/away", "/results/s": "/results/s"})
    assert stays.args == ("/work/in", "-o", "/results/s/e")
    assert relocated(Verdict.PASSED, moved) is Verdict.PASSED
    assert relocated(there, {new: old for old, new in moved.items()}) == plan()


def test_only_what_is_lacking_is_sent_and_too_much_is_refused(tmp_path: Path) -> None:
    (tmp_path / "matrix.yaml").write_text("entries: []")
    own = pack([str(tmp_path)], tmp_path / "results" / "s", "token")
    assert runtime_env(own, {"a": Found(True, True, True)}) == ({}, [])
    env, words = runtime_env(own, {"a": Found(True, True, True), "b": Found(False, False, False)})
    assert env["working_dir"] == str(tmp_path)
    assert "/results/" in env["excludes"]
    assert all("b" in text for text in words)
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(101 << 20)
    with pytest.raises(ValueError, match="too much to send"):
        runtime_env(own, {"b": Found(True, False, True)})


def test_a_folder_that_every_node_has_stays_the_one_also_when_a_script_writes_into_it(tmp_path: Path) -> None:
    here = replace(plan(), script=str(tmp_path / "x.py"), entry_dir=str(tmp_path / "results" / "s" / "e"))
    own = pack([str(tmp_path)], tmp_path / "results" / "s", "token")
    env, _ = runtime_env(own, {"a": Found(True, True, True)})
    (tmp_path / "written.txt").write_text("by a script")
    with unpacked(here, own.as_sent(env), "any") as there:
        assert there.plan == here
    env, _ = runtime_env(own, {"a": Found(True, True, True), "b": Found(True, False, True)})
    sent = own.as_sent(env, frozenset({"a"}))
    with unpacked(here, sent, "a") as at_home, unpacked(here, sent, "b") as away:
        assert at_home.plan == here
        assert away.plan.script == str(Path.cwd() / "x.py")


def test_what_is_too_much_to_send_is_left_to_nodes_that_nobody_asked(tmp_path: Path) -> None:
    own = pack([str(tmp_path)], tmp_path / "results" / "s", "token")
    env, words = runtime_env(own, {"a": Found(True, True, True)}, "nodes to come")
    assert env.keys() == {"py_modules", "working_dir", "excludes"}
    assert all("sent to nodes to come" in text for text in words)
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(101 << 20)
    env, words = runtime_env(own, {"a": Found(True, True, True)}, "nodes to come")
    assert env.keys() == {"py_modules"}
    assert "nodes to come must have" in words[1]


def test_the_folder_is_the_same_while_a_session_writes_beside_it(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("1")
    session = str(tmp_path / "results" / "s")
    before = digest_of(str(tmp_path), session)
    (tmp_path / "results" / "s").mkdir(parents=True)
    (tmp_path / "results" / "s" / "x.json").write_text("{}")
    (tmp_path / "benchmark.db-wal").write_text("rows")
    assert digest_of(str(tmp_path), session) == before
    (tmp_path / "script.py").write_text("2")
    assert digest_of(str(tmp_path), session) != before


def test_what_comes_back_leaves_scratch_and_large_files(tmp_path: Path) -> None:
    for name in ("logs/out.log", "scratch/x", "artifacts/model"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    with (tmp_path / "artifacts" / "huge").open("wb") as file:
        file.truncate(9 << 20)
    files, too_large = _collected(tmp_path)
    assert sorted(files) == ["artifacts/model", "logs/out.log"]
    assert too_large == ["artifacts/huge"]


def test_what_comes_home_takes_the_place_of_an_earlier_run_but_for_its_lines(tmp_path: Path) -> None:
    home = replace(plan(), session_dir=str(tmp_path), entry_dir=str(tmp_path / "e"))
    result = RunResult("e", Verdict.PASSED, STAMP, STAMP, 1.0)
    for name, content in (("logs/out.log", "old"), ("repeat_2/logs/out.log", "old"), ("results.jsonl", "first\n")):
        (tmp_path / "e" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "e" / name).write_text(content)
    assert bring_home(home, result, {"logs/out.log": b"new", "results.jsonl": b"second\n"}) is result
    kept = {path.relative_to(tmp_path / "e").as_posix(): path.read_text() for path in tmp_path.rglob("*.*")}
    assert kept == {"logs/out.log": "new", "results.jsonl": "first\n"}
    assert not (tmp_path / "e" / "scratch").exists()
    warned = bring_home(replace(home, entry_dir=str(tmp_path / "e" / "results.jsonl")), result, {"a": b""})
    assert "could not be brought home" in warned.warnings[0]


def test_nodes_of_one_host_are_told_apart_also_when_one_has_died() -> None:
    fleet = Fleet(FleetSettings(), Mock(), Path("/nowhere"))
    one, two, alone = (
        Node(id, host, "", {"CPU": 1}) for id, host in (("a" * 56, "h"), ("b" * 56, "h"), ("c" * 56, "i"))
    )
    for nodes in ((one, two, alone), (two, alone)):
        fleet._events.put(Nodes(nodes))
        fleet.next_event(1)
    assert list(map(str, fleet.nodes)) == ["h/bbbbbbbb (CPU: 1)", "i (CPU: 1)"]
    assert [fleet.name_of(Where(node.id, node.host)) for node in (one, alone)] == ["h/aaaaaaaa", "i"]
