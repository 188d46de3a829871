"""ci/install.py installs with uv where it can be had, as pip was told to, and with pip elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import pytest
from tiny_wheels import make_wheels

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parents[2] / "ci" / "install.py"
UV = Path(sys.executable).with_name("uv")
NOBODYS = {"PATH": "/usr/bin:/bin"}


@pytest.fixture
def links(tmp_path: Path) -> Path:
    """A folder with a package in two versions."""
    return make_wheels(tmp_path / "links", "1.0", "2.0")


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that takes its pip from ours: to install one takes seconds."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "ours.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return folder


@pytest.fixture
def pip_conf(tmp_path: Path, links: Path) -> Path:
    """A configuration without any index, in which the older version is the newest allowed."""
    (tmp_path / "constraints.txt").write_text("tiny<2\n")
    conf = tmp_path / "pip.conf"
    conf.write_text(
        f"[global]\nno-index = true\nfind-links = {links}\n[install]\nconstraint = {tmp_path / 'constraints.txt'}\n"
    )
    return conf


def install(venv: Path, pip_conf: Path, **variables: str) -> tuple[str, str]:
    """Install the package; return who installed it, and its version."""
    python = venv / "bin" / "python"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV"))}
    environment: Mapping[str, str] = {**kept, **NOBODYS, "PIP_CONFIG_FILE": str(pip_conf), **variables}
    command: list[str | Path] = [sys.executable, PROGRAM, python, "tiny"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (about,) = venv.glob("lib/python*/site-packages/tiny-*.dist-info")
    said = about.joinpath("INSTALLER").read_text().strip(), about.name.split("-")[1].removesuffix(".dist")
    shutil.rmtree(about)
    about.with_name("tiny.py").unlink()
    return said


def test_uv_installs_what_pip_was_told_to(venv: Path, pip_conf: Path) -> None:
    assert install(venv, pip_conf, UV=str(UV)) == ("uv", "1.0")


def test_variables_of_pip_go_before_its_files(venv: Path, pip_conf: Path, tmp_path: Path) -> None:
    (tmp_path / "others.txt").write_text("tiny>1\n")
    assert install(venv, pip_conf, UV=str(UV), PIP_CONSTRAINT=str(tmp_path / "others.txt")) == ("uv", "2.0")


def test_pip_installs_where_uv_cannot_be_had(venv: Path, pip_conf: Path) -> None:
    assert install(venv, pip_conf) == ("pip", "1.0")


def test_pip_installs_where_uv_fails(venv: Path, pip_conf: Path) -> None:
    assert install(venv, pip_conf, UV="/bin/false") == ("pip", "1.0")


def test_what_neither_can_install_is_an_error_that_says_so(venv: Path, pip_conf: Path) -> None:
    command: list[str | Path] = [sys.executable, PROGRAM, venv / "bin" / "python", "not-there-at-all"]
    environment = {**os.environ, "PIP_CONFIG_FILE": str(pip_conf), "PIP_NO_INDEX": "1", "UV": str(UV)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "not-there-at-all" in done.stderr
