"""What is written about the machine, its limits, its packages and the commits under test."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator_bench.files.names import safe_name
from curator_bench.measure.cgroup import CgroupLimits, count_cpus, read_limits
from curator_bench.provenance import environment, host_files
from curator_bench.provenance.environment import Provenance
from curator_bench.provenance.machine import Machine, cpu_model_in, machine_id, rounded_up
from curator_bench.provenance.packages import SubjectState, conda_text, packages_text, subject_state

WithGpus = Callable[..., Any]
SOURCE = Path(__file__).parents[2] / "src"
GIB = 1 << 30

MACHINE_ID = "import json; from curator_bench.provenance.environment import machine_id; print(json.dumps(machine_id()))"


def in_child(code: str, **variables: str) -> Any:
    env = os.environ | {"PYTHONPATH": str(SOURCE)} | variables
    done = subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def test_a_capture_says_what_a_run_depends_on(tmp_path: Path) -> None:
    facts = Provenance(tmp_path, {"CUDA_VISIBLE_DEVICES": "0,1", "IMAGE_DIGEST": "sha256:12"}).environment(["ray"])
    assert json.loads(json.dumps(facts)) == facts
    assert facts["schema_version"] == environment.SCHEMA_VERSION
    assert facts["cores"] == os.sysconf("SC_NPROCESSORS_ONLN")
    assert facts["memory_bytes"] > 100 << 20
    assert facts["python"] == platform.python_version()
    assert facts["kernel"] == platform.release()
    assert facts["ray"] == facts["subjects"]["ray"]["version"] == metadata.version("ray")
    assert (facts["cuda_visible_devices"], facts["image_digest"]) == ("0,1", "sha256:12")
    assert facts["session_commit"] is None
    assert len(facts["load_average"]) == 3
    assert facts["machine_id"] == machine_id()
    assert facts["boot_id"] == environment.boot_id()
    assert None not in [facts[name] for name in ("host", "cpu_model", "platform", "boot_id", "captured_at")]


def test_a_capture_knows_the_gpus(with_gpus: WithGpus) -> None:
    code = """
import json; from pathlib import Path; from curator_bench.provenance.environment import Provenance
print(json.dumps(Provenance(Path(".")).environment([])))
"""
    facts = with_gpus("healthy healthy", code, CUDA_VISIBLE_DEVICES="1")
    assert (facts["gpus"], facts["gpu_driver"]) == (["Stand-in X100"] * 2, "999.42.01")
    assert facts["cuda_visible_devices"] == "1"


def test_a_capture_imports_neither_ray_nor_psutil() -> None:
    code = """
import json, sys; from pathlib import Path
from curator_bench.provenance.environment import Provenance
Provenance(Path(".")).environment(["ray"])
print(json.dumps(sorted({"ray", "psutil", "numpy", "pydantic"} & set(sys.modules))))
"""
    assert in_child(code) == ([] if sys.platform == "linux" else ["psutil"])


def test_every_module_of_the_room_can_be_imported_without_psutil_and_pynvml() -> None:
    code = """
import importlib, json, pkgutil, sys
sys.modules["psutil"] = sys.modules["pynvml"] = sys.modules["ray"] = None
from curator_bench import measure
names = [module.name for module in pkgutil.iter_modules(measure.__path__)]
for name in names:
    importlib.import_module(f"curator_bench.measure.{name}")
from curator_bench.measure.gpu import busy_gpus
assert busy_gpus(0.1) == []
print(json.dumps(len(names)))
"""
    assert in_child(code) > 10


def test_what_was_captured_is_written_beside_the_lists_of_packages(tmp_path: Path) -> None:
    prefix = conda_prefix(tmp_path, {"url": "https://channel/linux-64/zlib-1.tar.bz2", "md5": "ab"})
    facts = Provenance(tmp_path).environment([])
    (tmp_path / "env").mkdir()
    host_files.write(facts, tmp_path / "env", {"CONDA_PREFIX": str(prefix)})
    assert json.loads((tmp_path / "env" / f"{facts['host']}.json").read_text()) == facts
    assert "pytest==" in (tmp_path / "env" / "packages.txt").read_text()
    assert "zlib" in (tmp_path / "env" / "conda-explicit.txt").read_text()
    assert len(os.listdir(tmp_path / "env")) == 3
    host_files.write(facts, tmp_path / "env", {})
    assert len(os.listdir(tmp_path / "env")) == 3


def test_a_machine_with_other_packages_writes_its_own_list(tmp_path: Path) -> None:
    (tmp_path / "packages.txt").write_text("pytest==1.0\n")
    host_files.write({"host": "../other host"}, tmp_path, {})
    name = safe_name("../other host")
    assert sorted(os.listdir(tmp_path)) == [f"{name}.json", f"{name}.packages.txt", "packages.txt"]
    assert (tmp_path / "packages.txt").read_text() == "pytest==1.0\n"


# Machine id


def test_the_machine_id_is_the_same_whatever_the_environment(with_gpus: WithGpus) -> None:
    plain = with_gpus("healthy busy", MACHINE_ID)
    assert plain == with_gpus("busy healthy", MACHINE_ID, CUDA_VISIBLE_DEVICES="0", PYTHON_CPU_COUNT="1", LANG="C")
    assert plain == with_gpus("healthy healthy", MACHINE_ID, CUDA_VISIBLE_DEVICES="", RAY_ADDRESS="x", HOME="/nowhere")


def test_the_machine_id_is_another_with_other_gpus(with_gpus: WithGpus) -> None:
    ids = [with_gpus(states, MACHINE_ID) for states in ("no-driver", "healthy", "healthy healthy")]
    assert len(set(ids)) == 3
    assert all(len(each) == 12 for each in ids)


@given(nominal=st.sampled_from([2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048]),
       kept=st.floats(0, 0.06), kept_next_boot=st.floats(0, 0.06))  # fmt: skip
def test_memory_is_rounded_to_the_same_at_every_boot(nominal: int, kept: float, kept_next_boot: float) -> None:
    boots = {rounded_up(int(nominal * GIB * (1 - part))) for part in (kept, kept_next_boot, 0)}
    assert boots == {nominal * GIB}


def test_each_part_of_a_machine_decides_its_id() -> None:
    machines = [
        Machine("A", 8, 16 * GIB, ()),
        Machine("B", 8, 16 * GIB, ()),
        Machine("A", 16, 16 * GIB, ()),
        Machine("A", 8, 32 * GIB, ()),
        Machine("A", 8, 16 * GIB, ("G",)),
    ]
    assert len({machine.id for machine in machines}) == len(machines)
    assert Machine("A", 8, 16 * GIB, ("G", "H")).id == Machine("A", 8, 16 * GIB, ("H", "G")).id


def test_the_model_of_a_processor_is_read_on_x86_and_on_arm() -> None:
    x86 = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Intel(R) Xeon(R) Gold 6248\n\n" * 2
    assert cpu_model_in(x86) == "Intel(R) Xeon(R) Gold 6248"
    arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\n\n" * 4
    assert cpu_model_in(arm) == "0x41 0xd0c"
    assert cpu_model_in("") == ""


# Control groups


def groups(root: Path, own: str, mounts: str, **files: str) -> Path:
    own_folder = root / "proc" / "self"
    own_folder.mkdir(parents=True)
    (own_folder / "cgroup").write_text(own)
    (own_folder / "mountinfo").write_text(mounts)
    for name, text in files.items():
        file = root / "sys/fs/cgroup" / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.with_name(file.name.replace("_DOT_", ".")).write_text(text + "\n")
    return root


V2 = "29 22 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"


def test_limits_of_version_2_are_the_strictest_on_the_way_up(tmp_path: Path) -> None:
    root = groups(tmp_path, "0::/a.slice/b.scope\n", V2)
    tree = root / "sys/fs/cgroup" / "a.slice"
    (tree / "b.scope").mkdir(parents=True)
    (tree / "memory.max").write_text("8589934592\n")
    (tree / "b.scope" / "memory.max").write_text("max\n")
    (tree / "cpu.max").write_text("400000 100000\n")
    (tree / "b.scope" / "cpu.max").write_text("150000 100000\n")
    (tree / "b.scope" / "cpuset.cpus.effective").write_text("0-3,8\n")
    assert read_limits(root) == CgroupLimits(2, 8 * GIB, 1.5, "0-3,8")


def test_limits_of_version_2_in_a_container_stand_at_the_top_of_the_mount(tmp_path: Path) -> None:
    root = groups(tmp_path, "0::/../../docker/abc\n", V2, memory_DOT_max="1073741824", cpu_DOT_max="max 100000")
    assert read_limits(root) == CgroupLimits(2, GIB, None, None)


def test_limits_of_version_1_are_read(tmp_path: Path) -> None:
    mounts = (
        "31 22 0:27 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
        "32 22 0:28 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
        "33 22 0:29 /docker/abc /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n"
        "34 22 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
    )
    own = "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n2:cpuset:/docker/abc\n0::/\n"
    root = groups(
        tmp_path,
        own,
        mounts,
        memory__memory_DOT_limit_in_bytes="2147483648",
        cpuset__cpuset_DOT_cpus="0-1",
    )
    folder = root / "sys/fs/cgroup/cpu,cpuacct"
    folder.mkdir()
    (folder / "cpu.cfs_quota_us").write_text("250000\n")
    (folder / "cpu.cfs_period_us").write_text("100000\n")
    assert read_limits(root) == CgroupLimits(1, 2 * GIB, 2.5, "0-1")


def test_no_limit_is_none(tmp_path: Path) -> None:
    mounts = "31 22 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    unlimited = groups(tmp_path, "4:memory:/\n", mounts, memory__memory_DOT_limit_in_bytes="9223372036854771712")
    assert read_limits(unlimited) == CgroupLimits(1, None, None, None)
    assert read_limits(tmp_path / "nowhere") == CgroupLimits()


def test_processors_are_counted_in_a_list_of_them() -> None:
    assert [count_cpus(text) for text in ("0", "0-3", "0-3,8,10-11", "")] == [1, 4, 7, 0]


# Packages


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make it look as if a package were installed in a folder of the path, with this direct_url.json."""
    folder = tmp_path / "site-packages"
    monkeypatch.syspath_prepend(str(folder))

    def install(name: str, version: str, origin: object = None) -> None:
        information = folder / f"{name.replace('-', '_')}-{version}.dist-info"
        information.mkdir(parents=True)
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        if origin is not None:
            text = origin if isinstance(origin, str) else json.dumps(origin)
            (information / "direct_url.json").write_text(text)

    return install


@pytest.fixture
def commit(tmp_path: Path) -> str:
    """The commit of a checkout in the folder `check out`, which holds the module `loose_module`."""
    if shutil.which("git") is None:
        pytest.skip("needs git")
    folder = tmp_path / "check out"
    folder.mkdir()
    (folder / "loose_module.py").write_text("answer = 42\n")
    who = ["-c", "user.name=Somebody", "-c", "user.email=somebody@localhost"]
    for words in (["init", "-b", "trunk"], ["add", "."], [*who, "commit", "-m", "first"]):
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_packages_are_listed_by_name_and_version_and_nothing_else(installed: Callable[..., None]) -> None:
    installed("zz-private", "1.5", {"url": "https://me:hunter2@host/zz.git", "vcs_info": {"vcs": "git"}})
    installed("AA-first", "2.0")
    lines = packages_text().splitlines()
    names = [line.partition("==")[0] for line in lines]
    assert names == sorted(names, key=str.lower)
    assert {"zz-private==1.5", "AA-first==2.0", f"pytest=={metadata.version('pytest')}"} <= set(lines)
    assert "hunter2" not in packages_text()


def test_an_editable_install_has_the_commit_of_its_checkout(
    installed: Callable[..., None], commit: str, tmp_path: Path
) -> None:
    url = (tmp_path / "check out").as_uri()
    assert "%20" in url
    installed("my-package", "0.1", {"url": url, "dir_info": {"editable": True}})
    expected = SubjectState("my_package", "0.1", commit, dirty=False, source="editable", branch="trunk")
    assert subject_state("my_package") == expected
    (tmp_path / "check out" / "loose_module.py").write_text("answer = 43\n")
    assert subject_state("my_package").dirty is True


def test_an_install_from_a_repository_has_its_commit(installed: Callable[..., None]) -> None:
    vcs = {"vcs": "git", "commit_id": "c0ffee", "requested_revision": "main"}
    installed("my-package", "0.1", {"url": "https://me:hunter2@host/x.git", "vcs_info": vcs})
    assert subject_state("my-package") == SubjectState(
        "my-package", "0.1", "c0ffee", dirty=False, source="vcs", branch="main"
    )


@pytest.mark.parametrize("origin", [None, "{broken", "[]", {"url": "file:///tmp/x", "dir_info": {}}])
def test_any_other_install_has_its_version(installed: Callable[..., None], origin: object) -> None:
    installed("my-package", "0.1", origin)
    assert subject_state("my-package") == SubjectState("my-package", "0.1", source="installed")


def test_a_package_imported_from_a_checkout_has_its_commit(
    commit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path / "check out"))
    assert subject_state("loose_module") == SubjectState(
        "loose_module", None, commit, dirty=False, source="checkout", branch="trunk"
    )
    assert "loose_module" not in sys.modules


def test_a_package_is_found_by_the_name_of_its_module() -> None:
    assert subject_state("yaml").version == metadata.version("PyYAML")


@pytest.mark.parametrize("name", ["no-such-package", "", "a.b", "../etc"])
def test_a_package_that_is_not_there_is_said_to_be_unknown(name: str) -> None:
    assert subject_state(name) == SubjectState(name)


# Conda


def conda_prefix(folder: Path, *records: dict[str, str]) -> Path:
    (folder / "conda-meta").mkdir()
    for number, record in enumerate(records):
        (folder / "conda-meta" / f"package-{number}.json").write_text(json.dumps(record))
    return folder


def test_a_conda_environment_is_listed_so_that_conda_can_make_it_again(tmp_path: Path) -> None:
    prefix = conda_prefix(
        tmp_path,
        {"url": "https://host/linux-64/zlib-1.2-0.conda", "md5": "aa", "subdir": "linux-64"},
        {"url": "https://me:hunter2@host/t/s3cr3t/noarch/six-1-0.conda", "subdir": "noarch"},
    )
    (tmp_path / "conda-meta" / "broken.json").write_text("{")
    (tmp_path / "conda-meta" / "history").write_text("==> 2026 <==")
    assert conda_text({"CONDA_PREFIX": str(prefix)}) == (
        "# platform: linux-64\n"
        "@EXPLICIT\n"
        "https://host/linux-64/zlib-1.2-0.conda#aa\n"
        "https://me:***@host/noarch/six-1-0.conda\n"
    )


def test_outside_of_conda_there_is_no_list(tmp_path: Path) -> None:
    assert conda_text({}) is None
    assert conda_text({"CONDA_PREFIX": str(tmp_path / "gone")}) is None
