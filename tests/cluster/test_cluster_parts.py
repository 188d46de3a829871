"""What the parts of the room promise that need no cluster: options, environments, interpreters, logs."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import uuid
import venv
from contextlib import ExitStack
from pathlib import Path

import pytest
from other_user import needs_a_second_user, run

from curator_bench.cluster.environment import head_environment, without_ray
from curator_bench.cluster.interpreters import interpreter_with_ray
from curator_bench.cluster.logs import LogKeeper, last_lines, newest_session
from curator_bench.cluster.options import missing_resources, object_store_bytes, requested_resources, start_options
from curator_bench.cluster.shared_memory import Segments, files_held_by, remove_unused
from curator_bench.cluster.temp_dirs import make_temp_dir, rays_folder, remove_leftovers, remove_temp_dir
from curator_bench.measure.processes import Mark
from curator_bench.values import RaySettings

MAPS_SHARED_MEMORY = """
import mmap, sys
with open(sys.argv[1], "w+b") as file:
    file.truncate(4096)
    mapped = mmap.mmap(file.fileno(), 4096)
print("mapped", flush=True)
sys.stdin.read()
"""

FILLS_SHARED_MEMORY = """
import mmap, os, sys, time
held = []
print("filling", flush=True)
while len(held) < 5000:
    with open(f"{sys.argv[1]}-{os.getpid()}-{len(held)}", "w+b") as file:
        file.truncate(4096)
        held.append(mmap.mmap(file.fileno(), 4096))
    time.sleep(0.0005)
time.sleep(600)
"""


def options(settings: RaySettings) -> list[str]:
    return start_options(settings, Path("/tmp/cb-x"), None)


def test_services_nobody_asked_for_are_off() -> None:
    asked = options(RaySettings())
    assert {"--include-dashboard=false", "--include-log-monitor=false", "--disable-usage-stats"} <= set(asked)
    assert not [option for option in asked if option.startswith(("--num-cpus", "--object-store", "--system-config"))]


def test_a_dashboard_that_was_asked_for_listens_on_loopback_only() -> None:
    asked = options(RaySettings(include_dashboard=True, include_log_monitor=True))
    assert {"--include-dashboard=true", "--dashboard-host=127.0.0.1", "--include-log-monitor=true"} <= set(asked)


def test_no_cluster_asks_for_a_port_of_its_own() -> None:
    asked = options(RaySettings(include_dashboard=True))
    assert {option for option in asked if "port" in option} == {
        "--max-worker-port=0",
        "--min-worker-port=0",
        "--port=0",
        "--dashboard-port=0",
        "--dashboard-agent-listen-port=0",
    }


def test_a_share_of_a_processor_a_gpu_or_a_disk_is_of_a_whole_one() -> None:
    """In a fleet entries share it; the cluster of each, and the fleet itself, have whole ones."""
    asked = options(RaySettings(num_cpus=1.5, num_gpus=0.5, resources={"disk": 0.25, "tape": 2}))
    assert {"--num-cpus=2", "--num-gpus=1", '--resources={"disk": 1, "tape": 2}'} <= set(asked)


def test_an_object_store_is_bytes_or_a_fraction_of_memory() -> None:
    assert object_store_bytes(None) is None
    assert object_store_bytes(100_000_000) == 100_000_000
    tenth, fifth = object_store_bytes(0.1), object_store_bytes(0.2)
    assert tenth
    assert fifth
    assert abs(fifth - 2 * tenth) <= 1
    assert tenth < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 9


def test_what_is_missing_is_named() -> None:
    asked = requested_resources(RaySettings(num_cpus=4, num_gpus=0, memory=1000, resources={"disk": 1}))
    assert asked == {"CPU": 4, "memory": 1000, "disk": 1}
    assert missing_resources(asked, {"CPU": 4.0, "memory": 1000.0, "disk": 1.0}) == []
    assert missing_resources(asked, {"CPU": 2.0, "memory": 999.5}) == [
        "CPU: 4 asked for, 2 found",
        "disk: 1 asked for, 0 found",
    ]


def test_what_a_ray_worker_added_does_not_reach_a_script() -> None:
    kept = {"PATH": "/bin", "OMP_NUM_THREADS": "1"}
    assert without_ray({**kept, "RAY_ADDRESS": "x", "RAY_gcs_storage": "y", "CURATOR_BENCH_CLUSTER": "z"}) == kept
    assert without_ray({**kept, "RAY_RAYLET_PID": "1", "PYTHONBREAKPOINT": "ray"}) == {"PATH": "/bin"}


def test_of_the_users_ray_variables_only_harmless_ones_reach_clusters_and_scripts() -> None:
    harmless = {"RAY_MAX_LIMIT_FROM_API_SERVER": "40000", "RAY_DEDUP_LOGS": "0", "RAY_COLOR_PREFIX": "1"}
    others = {"RAY_ADDRESS": "x", "RAY_AUTH_TOKEN": "t", "RAY_TMPDIR": "/there", "RAY_DATA_Y": "1"}
    assert without_ray({**harmless, **others}) == harmless


def test_an_entry_may_set_ray_but_not_the_address_or_the_token() -> None:
    entry = {"RAY_DATA_X": "1", "RAY_ADDRESS": "x", "RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": "y"}
    environment = head_environment({"RAY_DATA_Y": "1"}, entry, "the token", (Mark("run"), Mark("one", "OTHER")))
    assert environment == {
        "RAY_DATA_X": "1",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": "the token",
        "RAY_USAGE_STATS_ENABLED": "0",
        "CURATOR_BENCH_RUN": "run",
        "OTHER": "one",
        "SPT_NOENV": "1",
    }


def test_a_cluster_runs_under_the_scripts_interpreter_when_that_has_ray(tmp_path: Path) -> None:
    with_ray = tmp_path / "python-with-ray"
    with_ray.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    with_ray.chmod(0o755)
    assert interpreter_with_ray(str(with_ray), os.environ) == str(with_ray)
    assert interpreter_with_ray(with_ray.name, {**os.environ, "PATH": str(tmp_path)}) == str(with_ray)


def test_a_cluster_runs_under_our_interpreter_when_the_scripts_has_no_ray(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    assert interpreter_with_ray(str(tmp_path / "bare" / "bin" / "python"), env) == sys.executable
    assert interpreter_with_ray(str(tmp_path / "nowhere"), env) == sys.executable


def keep_logs(session: Path, target: Path) -> None:
    keeper = LogKeeper(target)
    keeper.keep(session, below=session.parent)
    keeper.close()


def test_logs_are_kept_without_sockets_and_runtime_environments(tmp_path: Path) -> None:
    session, target = tmp_path / "session", tmp_path / "kept"
    for folder in ("logs", "sockets", "runtime_resources", "ray_spilled_objects_x"):
        (session / folder).mkdir(parents=True)
        (session / folder / "file").write_text(folder)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(session / "sockets" / "raylet"))
        keep_logs(session, target)
    assert [path.relative_to(target) for path in target.rglob("*")] == [Path("logs"), Path("logs/file")]


def test_the_logs_of_a_second_start_do_not_replace_the_first(tmp_path: Path) -> None:
    for content in ("first", "second"):
        (tmp_path / content / "logs").mkdir(parents=True)
        (tmp_path / content / "logs" / "raylet.out").write_text(content)
        keep_logs(tmp_path / content, tmp_path / "kept")
    assert sorted(path.read_text() for path in (tmp_path / "kept").rglob("raylet.out")) == ["first", "second"]


@pytest.mark.parametrize("where", ["session", "session/logs", "session/logs/deep"])
def test_a_link_among_rays_logs_is_not_followed_and_what_it_leads_to_stays(tmp_path: Path, where: str) -> None:
    home, target = tmp_path / "home", tmp_path / "kept"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id").write_text("of the victim")
    (tmp_path / where).mkdir(parents=True)
    (tmp_path / where / "raylet.out").write_text("kept")
    for name, to in (("z_folder", home), ("z_file", home / ".ssh" / "id"), ("z_nowhere", home / "not there")):
        (tmp_path / where / name).symlink_to(to)
    os.mkfifo(tmp_path / where / "z_pipe")
    keep_logs(tmp_path / "session", target)
    assert (home / ".ssh" / "id").read_text() == "of the victim"
    assert [path.name for path in target.rglob("*") if not path.is_dir()] == ["raylet.out"]


def test_a_session_folder_that_is_a_link_is_none_of_rays(tmp_path: Path) -> None:
    """The greatest name was taken, whatever had it."""
    victim, rays = tmp_path / "victim", tmp_path / "r"
    victim.mkdir()
    (victim / "file").write_text("stays")
    (rays / "session_2026-01-23_1").mkdir(parents=True)
    (rays / "session_29").symlink_to(victim)
    (rays / "session_28").write_text("a file")
    assert newest_session(rays, below=tmp_path) == rays / "session_2026-01-23_1"
    keep_logs(rays / "session_29", tmp_path / "kept")
    assert (victim / "file").exists()
    (tmp_path / "linked").symlink_to(rays)
    assert newest_session(tmp_path / "linked", below=tmp_path) is None


def test_logs_come_into_the_folder_that_was_there_at_the_start_or_into_none(tmp_path: Path) -> None:
    session, target, victim = tmp_path / "session", tmp_path / "kept", tmp_path / "victim"
    (session / "logs").mkdir(parents=True)
    victim.mkdir()
    keeper = LogKeeper(target)
    target.rename(tmp_path / "renamed")
    target.symlink_to(victim)
    keeper.keep(session, below=tmp_path)
    keeper.close()
    assert not list(victim.iterdir())
    assert [path.name for path in (tmp_path / "renamed").iterdir()] == ["logs"]


def test_folders_that_ray_opened_to_everybody_are_kept_as_any_other(tmp_path: Path) -> None:
    logs = tmp_path / "session" / "logs"
    logs.mkdir(parents=True)
    logs.chmod(0o777)
    keep_logs(tmp_path / "session", tmp_path / "kept")
    assert not (tmp_path / "kept" / "logs").stat().st_mode & 0o002


def test_the_last_lines_are_read_of_files_only(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "secret").write_text("of the victim")
    os.mkfifo(tmp_path / "startup.log")
    (tmp_path / "logs" / "raylet.out").symlink_to(tmp_path / "secret")
    assert last_lines(tmp_path / "startup.log", tmp_path) == ()


def test_the_last_lines_are_those_a_person_can_use(tmp_path: Path) -> None:
    startup, logs = tmp_path / "startup.log", tmp_path / "logs"
    logs.mkdir()
    startup.write_text("Traceback (most recent call last):\n  File x\nValueError: no\n")
    (logs / "raylet.out").write_text("[state-dump] a\nit broke\n\tqueue 1\n" + "Execution time: 1\n" * 50)
    (logs / "raylet.err").write_text("")
    assert last_lines(startup, tmp_path) == (
        "--- startup.log",
        "Traceback (most recent call last):",
        "ValueError: no",
        "--- raylet.out",
        "it broke",
    )
    assert last_lines(None, None) == ()


def test_shared_memory_is_removed_once_nobody_maps_it(tmp_path: Path) -> None:
    file = Path("/dev/shm") / tmp_path.name.ljust(20, "_")
    command = [sys.executable, "-c", MAPS_SHARED_MEMORY, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        files = files_held_by([process.pid])
        assert files == {file}
        remove_unused(files)
        assert file.exists()
        process.kill()
    remove_unused(files)
    assert not file.exists()


def test_what_is_being_made_in_shared_memory_while_its_makers_are_ended_goes_as_well(tmp_path: Path) -> None:
    name, mark = tmp_path.name.ljust(20, "_"), Mark(uuid.uuid4().hex)
    segments = Segments()
    command = [sys.executable, "-c", FILLS_SHARED_MEMORY, f"/dev/shm/{name}"]
    with ExitStack() as stack:
        for _ in range(3):
            process = subprocess.Popen(command, env={**os.environ, **mark.environment()}, stdout=subprocess.PIPE)
            stack.enter_context(process)
            assert process.stdout
            process.stdout.readline()
        assert segments.end(mark, grace_s=0) == frozenset()
    left = list(Path("/dev/shm").glob(f"{name}*"))
    for file in left:
        file.unlink()
    assert not left


def test_nothing_behind_a_link_in_shared_memory_is_removed(tmp_path: Path) -> None:
    """A folder of a run is replaced by a link after its files were noted."""
    (tmp_path / "file").touch()
    link = Path("/dev/shm") / tmp_path.name.ljust(20, "_")
    link.symlink_to(tmp_path)
    try:
        remove_unused(frozenset([link / "file", tmp_path / "file"]))
    finally:
        link.unlink()
    assert (tmp_path / "file").exists()


def test_what_was_in_a_folder_of_shared_memory_before_stays(tmp_path: Path) -> None:
    """Somebody's dataset, which the run maps as well as the files of its own."""
    folder, mark = Path("/dev/shm") / tmp_path.name.ljust(20, "_"), Mark(uuid.uuid4().hex)
    folder.mkdir()
    segments = Segments()
    command = [sys.executable, "-c", MAPS_SHARED_MEMORY, str(folder / "dataset")]
    try:
        with subprocess.Popen(
            command, env={**os.environ, **mark.environment()}, stdin=subprocess.PIPE, stdout=-1
        ) as process:
            assert process.stdout
            process.stdout.readline()
            assert segments.end(mark, grace_s=1) == frozenset()
        assert (folder / "dataset").exists()
    finally:
        shutil.rmtree(folder)


def test_a_socket_fits_into_the_path_of_a_temporary_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / ("long" * 30)))
    directory = make_temp_dir("run", Mark("cluster"))
    try:
        socket_of_ray = "session_2026-01-23_14-30-00_123456_1234567/sockets/plasma_store"
        assert len(str(rays_folder(directory) / socket_of_ray)) <= 107
    finally:
        remove_temp_dir(directory)
    assert not directory.exists()


def test_an_empty_directory_that_nobody_claims_is_removed_in_time() -> None:
    """Its maker was killed between making it and saying whose it is."""
    fresh, old = (Path("/tmp", f"cb-{uuid.uuid4().hex}") for _ in range(2))
    for directory in (fresh, old):
        directory.mkdir(mode=0o700)
    os.utime(old, (0, 0))
    remove_leftovers("no run")
    there = (fresh.exists(), old.exists())
    fresh.rmdir()
    assert there == (True, False)


@needs_a_second_user
def test_files_of_another_user_in_shared_memory_stay(tmp_path: Path) -> None:
    """A script may hold them, for instance those of a service that it uses."""
    name = Path("/dev/shm", uuid.uuid4().hex)
    segments = Segments()
    run("os.close(os.open(sys.argv[1], os.O_CREAT | os.O_EXCL | os.O_RDWR))", name)
    try:
        with name.open("rb"):
            assert segments.note([os.getpid()]) == {name}
        segments.remove()
        assert name.exists()
    finally:
        name.unlink()
