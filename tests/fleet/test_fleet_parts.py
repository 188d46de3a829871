"""What a fleet computes without Ray: slices, what a node holds, what is left out, what is relocated and packed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from curator_bench.execution.failed import failed_before_it_began
from curator_bench.fleet.board import Board
from curator_bench.fleet.code_shipping import (
    Comparison,
    Sending,
    Shipment,
    TooMuchToSend,
    code_digest,
    compare_here,
    pack,
    relocated,
    runtime_env,
    unpacked,
    what_to_send,
)
from curator_bench.fleet.gpus import GpuWatch
from curator_bench.fleet.messages import Node, NodeNames
from curator_bench.fleet.quarantine import Quarantine
from curator_bench.fleet.slices import capacity, fits, largest, slice_of, within
from curator_bench.values import Cause, Plan, RaySettings, Slice, Verdict, Where

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
def test_a_gpu_that_nobody_could_look_at_is_a_warning(tmp_path: Path) -> None:
    here = replace(plan(), session_dir=str(tmp_path), entry_dir=str(tmp_path / "e"))
    watch = GpuWatch({"CUDA_VISIBLE_DEVICES": "0"}, is_shared=False, threshold=None)
    watch.check()
    assert "no NVIDIA driver answers" in watch.with_gpus(failed_before_it_began(here, "", Cause.GPU)).warnings[0]


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
    quarantine, nodes = Quarantine(), [node("a"), node("b")]
    for entry in ("one", "one"):
        quarantine.note(entry, Where("a", "host-a"), Cause.NODE, nodes)
    assert not quarantine.nodes
    quarantine.note("two", Where("a", "host-a"), Cause.CLUSTER, nodes)
    assert quarantine.nodes == {"a"}
    for entry in ("one", "two"):
        quarantine.note(entry, Where("b", "host-b"), Cause.NODE, nodes)
    assert quarantine.nodes == {"a"}
    assert [line for line in quarantine.lines() if "host-a" in line and "one, two" in line]


def test_a_gpu_is_left_out_once_and_its_node_is_not() -> None:
    quarantine, where = Quarantine(), Where("a", "host-a", ("3",))
    answers = [quarantine.note(entry, where, Cause.GPU, [node("a"), node("b")]) for entry in ("one", "two", "three")]
    assert answers == [[], ["3"], []]
    assert quarantine.gpus == {"a": {"3"}}
    assert not quarantine.nodes


def test_the_board_knows_at_once_which_gpus_two_entries_were_refused() -> None:
    async def told() -> list[frozenset[str]]:
        board = Board()
        for entry in ("one", "one", "two"):
            await board.refused("a", ["3"], entry)
        await board.refused("a", ["4"], "one")
        return [await board.quarantined_gpus("a"), await board.quarantined_gpus("b")]

    assert asyncio.run(told()) == [{"3"}, frozenset()]


def test_paths_of_a_plan_are_those_of_the_machine_and_come_back() -> None:
    moved = {"/work": "/tmp/ray/work", "/results/s": "/tmp/away"}
    there = relocated(plan(), moved)
    assert (there.script, there.args) == ("/tmp/ray/work/x.py", ("/tmp/ray/work/in", "-o", "/tmp/away/e"))
    stays = relocated(plan(), {"/results": "/away", "/results/s": "/results/s"})
    assert stays.args == ("/work/in", "-o", "/results/s/e")
    assert relocated(Verdict.PASSED, moved) is Verdict.PASSED
    assert relocated(there, {new: old for old, new in moved.items()}) == plan()


def in_folder(folder: Path, **changes: object) -> Plan:
    """A plan whose matrix and script stand in this folder."""
    session = folder / "results" / "s"
    where = {"session_dir": str(session), "entry_dir": str(session / "e"), "working_dir": str(folder)}
    return replace(plan(), **{"script": str(folder / "x.py"), "args": (), **where, **changes})  # type: ignore[arg-type]


def packed(folder: Path, **changes: object) -> Shipment:
    (folder / "x.py").touch()
    return pack([in_folder(folder, **changes)], folder / "results" / "s")


HAS_ALL = Comparison(True, {}, True)


def found_by(own: Shipment) -> Comparison:
    """What a machine would find that sees the same disk as this one, now."""
    return Comparison(*compare_here(own, code_digest()))


def test_only_what_is_lacking_is_sent_and_too_much_is_refused(tmp_path: Path) -> None:
    own = packed(tmp_path)
    lacks = Comparison(False, dict.fromkeys(dict(own.fingerprints), ""), False)
    assert what_to_send(own, {"a": HAS_ALL}) == Sending()
    sending = what_to_send(own, {"a": HAS_ALL, "b": lacks})
    assert sending.code
    assert sending.files
    assert all("b" in text for text in sending.words)
    with runtime_env(own, sending) as env:
        assert Path(env["working_dir"] + str(tmp_path / "x.py")).exists()
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(101 << 20)
    with pytest.raises(TooMuchToSend, match=r"too much to send.*missing or different: .*x\.py"):
        what_to_send(packed(tmp_path), {"b": lacks})


def test_a_log_that_grows_beside_the_matrix_is_neither_compared_nor_sent(tmp_path: Path) -> None:
    log = tmp_path / "slurm-7.out"
    log.write_text("1\n")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(101 << 20)
    own = packed(tmp_path)
    log.write_text("1\n2\n")
    (tmp_path / "slurm-8.out").write_text("another job's")
    found = found_by(own)
    assert sorted(found.differences) == [str(log), str(tmp_path / "slurm-8.out")]
    assert what_to_send(own, {"a": found}) == Sending()  # huge as it is: the node has it
    (tmp_path / "huge").unlink()
    log.write_text("3\n")
    with runtime_env(own, Sending(files=True)) as env:
        sent = {path.name for path in Path(env["working_dir"]).rglob("*") if path.is_file()}
    assert sent == {"x.py"}


def test_a_file_that_differs_here_and_there_and_stays_so_is_sent(tmp_path: Path) -> None:
    helper = tmp_path / "helper.py"
    helper.write_text("new")
    own = packed(tmp_path)
    elsewhere = Comparison(True, {str(helper): "another content's"}, True)
    assert what_to_send(own, {"a": elsewhere}).files
    helper.unlink()  # and one that is only there
    assert what_to_send(packed(tmp_path), {"a": elsewhere}).files


def test_a_script_that_the_matrix_names_elsewhere_is_sent_also_when_it_changes_meanwhile(tmp_path: Path) -> None:
    folder, script = tmp_path / "matrices", tmp_path / "scripts" / "x.py"
    folder.mkdir()
    script.parent.mkdir()
    script.write_text("old")
    (script.parent / "beside.txt").write_text("not ours")
    here = in_folder(folder, script=str(script))
    own = pack([here], folder / "results" / "s")
    script.write_text("new")
    assert what_to_send(own, {"a": found_by(own)}) == Sending()
    lacks = Comparison(True, {str(script): ""}, True)
    sending = what_to_send(own, {"a": lacks})
    with runtime_env(own, sending) as env:
        assert Path(env["working_dir"] + str(script)).read_text() == "new"
        assert not Path(env["working_dir"] + str(script.parent / "beside.txt")).exists()
    with unpacked(here, own.as_sent(sending.files), "a", "m") as there:
        assert there.plan.script == str(Path.cwd()) + str(script)


def test_two_invocations_in_one_session_have_a_token_each(tmp_path: Path) -> None:
    first, second = packed(tmp_path), packed(tmp_path)
    assert found_by(first).shares_results
    assert found_by(second).shares_results
    second.close()
    assert found_by(first).shares_results
    assert not found_by(second).shares_results
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "results" / "s" / "fleet").iterdir()] == [0o600]


def test_a_folder_that_every_node_has_stays_the_one_also_when_a_script_writes_into_it(tmp_path: Path) -> None:
    here, own = in_folder(tmp_path), packed(tmp_path)
    sending = what_to_send(own, {"a": HAS_ALL})
    (tmp_path / "written.txt").write_text("by a script")
    with unpacked(here, own.as_sent(sending.files), "any", "m") as there:
        assert there.plan == here
    sending = what_to_send(own, {"a": HAS_ALL, "b": Comparison(True, {str(tmp_path / "x.py"): ""}, True)})
    sent = own.as_sent(sending.files, frozenset({"a"}))
    with unpacked(here, sent, "a", "m") as at_home, unpacked(here, sent, "b", "m") as away:
        assert at_home.plan == here
        assert away.plan.script == f"{Path.cwd()}{tmp_path}/x.py"


def test_what_is_too_much_to_send_is_left_to_nodes_that_nobody_asked(tmp_path: Path) -> None:
    own = packed(tmp_path)
    sending = what_to_send(own, {"a": HAS_ALL}, "nodes to come")
    assert (sending.code, sending.files) == (True, True)
    assert all("sent to nodes to come" in text for text in sending.words)
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(101 << 20)
    sending = what_to_send(packed(tmp_path), {"a": HAS_ALL}, "nodes to come")
    assert (sending.code, sending.files) == (True, False)
    assert "nodes to come must have" in sending.words[1]


def test_the_folder_is_the_same_while_a_session_writes_beside_it(tmp_path: Path) -> None:
    own = packed(tmp_path)
    (tmp_path / "results" / "s" / "x.json").write_text("{}")
    (tmp_path / "benchmark.db-wal").write_text("rows")
    assert not found_by(own).differences
    (tmp_path / "x.py").write_text("2")
    assert list(found_by(own).differences) == [str(tmp_path / "x.py")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/work/x", "/there/x"),
        ("--in=/work", "--in=/there"),
        ("-I/work/include", "-I/there/include"),
        ("file:///work/x", "file:///there/x"),
        ("/mnt/work/x", "/mnt/work/x"),
        ("./work/x", "./work/x"),
        ("/workbench", "/workbench"),
        ("/work.old/x", "/work.old/x"),
        ("it is in /work.", "it is in /there."),
    ],
)
def test_only_whole_paths_are_relocated(text: str, expected: str) -> None:
    assert relocated(text, {"/work": "/there"}) == expected


def test_nodes_of_one_host_are_told_apart_also_when_one_has_died() -> None:
    names = NodeNames()
    one, two, alone = (
        Node(id, host, "", {"CPU": 1}) for id, host in (("a" * 56, "h"), ("b" * 56, "h"), ("c" * 56, "i"))
    )
    names.named((one, two, alone))
    assert list(map(str, names.named((two, alone)))) == ["h/bbbbbbbb (CPU: 1)", "i (CPU: 1)"]
    assert [names.name_of(Where(node.id, node.host)) for node in (one, alone)] == ["h/aaaaaaaa", "i"]
