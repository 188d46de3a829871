"""Imported by the server of warm_pytest.py: what a run of pytest with the plugin imports, as pytest imports it."""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import tempfile
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import pytest
from plugins_of_others import WITHOUT_OTHERS

ROOMS = ("collection", "execution", "fixtures", "matrix", "report", "runner", "sinks", "store", "verdict")
LIBRARIES = ("alembic.command", "alembic.config", "alembic.runtime.migration", "sqlalchemy.dialects.sqlite")


class Imports:
    """Within a session of pytest, so that its assertion rewriting has had its hand in them as in any other session."""

    def pytest_sessionstart(self) -> None:
        for name in LIBRARIES:
            importlib.import_module(name)
        for room in ROOMS:
            self.import_all(f"curator_bench.{room}")

    def import_all(self, name: str) -> None:
        with suppress(ImportError):  # an extra that is not installed
            module = importlib.import_module(name)
            for found in pkgutil.iter_modules(getattr(module, "__path__", ())):
                if not found.name.endswith("_program"):
                    self.import_all(f"{name}.{found.name}")


def preload() -> None:
    with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("w") as nothing:
        Path(folder, "pytest.ini").write_text("[pytest]\n")
        with redirect_stdout(nothing), redirect_stderr(nothing):
            pytest.main([folder, "-pno:cacheprovider", *WITHOUT_OTHERS], plugins=[Imports()])
    gc.freeze()


preload()
