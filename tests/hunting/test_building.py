"""Environments that are built for `ab` and `bisect`: what is there is used, the rest is installed, by uv or by pip."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from scratch_project import make_project
from tiny_wheels import make_wheels

from curator_bench.errors import BenchError
from curator_bench.hunting import building
from curator_bench.hunting.building import Venv, installed_packages
from curator_bench.hunting.pip_settings import find_uv

TINY = "import tiny; print(tiny.VERSION)"


@pytest.fixture(params=["uv", "pip"])
def installer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "pip":
        monkeypatch.setattr(building, "find_uv", lambda _: None)
    return str(request.param)


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Venv:
    """An environment with the older of two versions. pip is configured to know these alone."""
    links = make_wheels(tmp_path / "links", "1.0", "2.0")
    conf = tmp_path / "pip.conf"
    conf.write_text(f"[global]\nno-index = true\nfind-links = {links}\n")
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(conf))
    venv = Venv(tmp_path / "base", sys.executable, "base")
    venv.create()
    venv.install(["tiny==1.0"])
    return venv


def new(base: Venv, folder: Path) -> Venv:
    venv = Venv(folder, base.python, "side")
    venv.create()
    return venv


def said(venv: Venv, program: str = TINY) -> str:
    return subprocess.check_output([venv.python, "-P", "-c", program], text=True).strip()


def own_packages(venv: Venv) -> list[str]:
    return sorted(file.name for file in venv.site.glob("tiny*.dist-info"))


@pytest.mark.slow
def test_only_what_the_interpreter_lacks_is_installed(base: Venv, tmp_path: Path, installer: str) -> None:
    venv = new(base, tmp_path / installer)
    venv.install(["tiny"])
    assert (said(venv), own_packages(venv)) == ("1.0", []), "what is there is good enough, though there is a newer one"
    venv.install(["tiny>1"])
    assert (said(venv), own_packages(venv)) == ("2.0", ["tiny-2.0.dist-info"])
    assert (venv.site / "tiny-2.0.dist-info" / "INSTALLER").read_text().strip() == installer
    assert said(base) == "1.0"


@pytest.mark.slow
def test_packages_of_the_interpreter_can_be_left_out(base: Venv, tmp_path: Path, installer: str) -> None:
    venv = Venv(tmp_path / installer, base.python, "side", frozenset({"tiny"}))
    venv.create()
    assert (
        said(venv, "import importlib.util as u; print(u.find_spec('tiny'), u.find_spec('pytest') is None)")
        == "None False"
    )
    assert "tiny" not in installed_packages(venv.python)
    assert installed_packages(venv.python).keys() == installed_packages(base.python).keys() - {"tiny"}
    venv.install(["tiny==2.0"])
    assert said(venv) == "2.0"
    assert installed_packages(venv.python)["tiny"] == ("2.0", ())


@pytest.mark.slow
def test_what_cannot_be_installed_is_told_with_the_end_of_the_log(base: Venv, tmp_path: Path, installer: str) -> None:
    venv = new(base, tmp_path / installer)
    with pytest.raises(BenchError, match=r"(?s)side: .*pip could not install what it needs:\n.*tiny"):
        venv.install(["tiny==3.0"])


@pytest.mark.slow
def test_a_project_is_installed_with_the_versions_of_its_lock_file(base: Venv, tmp_path: Path, installer: str) -> None:
    project = make_project(tmp_path / "project").folder
    about = project / "pyproject.toml"
    about.write_text(f'{about.read_text()}requires-python = ">=3.11"\ndependencies = ["tiny"]\n')
    uv = find_uv(sys.executable)
    assert uv is not None
    links = str(tmp_path / "links")
    lock = [uv, "lock", "--quiet", "--no-index", "--find-links", links, "--python", sys.executable]
    subprocess.run([*lock, "--upgrade-package", "tiny==2.0"], cwd=project, check=True)
    venv = new(base, tmp_path / "locked")
    venv.install_project(project)
    assert said(venv, "import tiny, pkg; print(tiny.VERSION, pkg.work())") == "2.0 0.12"
    (project / "uv.lock").unlink()
    venv = new(base, tmp_path / "free")
    venv.install_project(project)
    assert said(venv, "import tiny, pkg; print(tiny.VERSION, pkg.work())") == "1.0 0.12"
