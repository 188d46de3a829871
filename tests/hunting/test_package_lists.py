"""Lists of packages: lock files of uv, requirements and the output of pip freeze are read as their tools mean them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tiny_wheels import make_wheel

from curator_bench.errors import BenchError
from curator_bench.hunting.package_lists import PackageList, read_packages
from curator_bench.hunting.pip_settings import find_uv


def read(folder: Path, text: str, name: str = "list.txt") -> PackageList:
    file = folder / name
    file.write_text(text)
    return read_packages(file)


def test_requirements_and_what_they_include(tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "more.txt").write_text("Typing_Extensions==4.1\n-r list.txt\n")
    found = read(
        tmp_path,
        """# of a project
--find-links wheels
--no-index
numpy==2.1.0 \\
    --hash=sha256:0123 \\
    --hash=sha256:4567   # by hand
Other.Name[fast]==1.0 ; python_version > "3"
windows==1.0; sys_platform == "nowhere"
-r more.txt
""",
    )
    assert found.pins == {
        "numpy": "numpy==2.1.0",
        "other-name": "Other.Name[fast]==1.0",
        "typing-extensions": "Typing_Extensions==4.1",
    }
    assert found.options == (("--find-links", str(tmp_path / "wheels")), ("--no-index",))


def test_output_of_pip_freeze(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """a==1.0
# Editable install with no version control (mine==0.1)
-e /home/me/mine
-e git+https://example.org/me/other.git@0123456#egg=Other_One
direct @ https://example.org/direct-1.0.zip
""",
    )
    assert found.pins == {"a": "a==1.0", "direct": "direct @ https://example.org/direct-1.0.zip"}
    assert set(found.others) == {"mine", "other-one"}


def test_all_mistakes_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(BenchError) as raised:
        read(tmp_path, "a==1\nb>=1\n\nno requirement\nc==1.*\n--unknown\na==2\n-r missing.txt\n")
    said = str(raised.value).splitlines()
    assert [line.split(": ")[0].rpartition(" ")[2] for line in said] == ["2", "4", "5", "6", "7", "8"]
    assert "found 'b>=1', expected NAME==VERSION, as `pip freeze` or a lock file has it" in said[0]
    assert "found 'a==2', but 'a==1' before" in said[4]


@pytest.mark.parametrize("text", ["", "# nothing\n", "[[package]]\nname = 'a'\n", "[[package]]\nversion = \n"])
def test_a_file_without_packages_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BenchError, match=r"list\.txt"):
        read(tmp_path, text)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "wheel.whl"
    file.write_bytes(b"PK\xff\xfe")
    with pytest.raises(BenchError, match="cannot be read"):
        read_packages(file)


def test_a_lock_file_of_uv_says_what_it_installs_here(tmp_path: Path) -> None:
    """uv itself writes the lock file."""
    links = tmp_path / "links"
    links.mkdir()
    make_wheel(links, "top", "1.0", "", ["below>=1", "nowhere; sys_platform == 'nowhere'", "fast; extra == 'quick'"])
    for name in ("below", "nowhere", "fast", "tool"):
        make_wheel(links, name, "2.0", "")
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "mine"\nversion = "1.0"\nrequires-python = ">=3.11"\ndependencies = ["top[quick]"]\n'
        '[dependency-groups]\ndev = ["tool"]\n'
    )
    uv = find_uv(sys.executable)
    assert uv is not None
    words = [uv, "lock", "--quiet", "--no-index", "--find-links", str(links), "--python", sys.executable]
    subprocess.run(words, cwd=tmp_path, check=True)
    (tmp_path / "pyproject.toml").unlink()
    found = read_packages(tmp_path / "uv.lock")
    assert found.pins == {"top": "top==1.0", "below": "below==2.0", "fast": "fast==2.0"}
    assert set(found.others) == {"mine"}


def test_sources_of_a_lock_file_are_kept(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """version = 1
[[package]]
name = "from-git"
version = "1.0"
source = { git = "https://example.org/a.git?rev=main#0123456789" }
[[package]]
name = "from-url"
version = "1.0"
source = { url = "https://example.org/b-1.0.zip" }
[[package]]
name = "from-folder"
version = "1.0"
source = { directory = "../c" }
""",
        "uv.lock",
    )
    assert found.pins == {
        "from-git": "from-git @ git+https://example.org/a.git@0123456789",
        "from-url": "from-url @ https://example.org/b-1.0.zip",
    }
    assert set(found.others) == {"from-folder"}
