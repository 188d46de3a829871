"""What the stages of the ALM suite promise: NeMo Curator's windows, to the last bit, and those that were planted."""

from __future__ import annotations

import importlib.util
import json
import math
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SUITE = Path(__file__).parents[2] / "benchmarks" / "alm"
sys.path.insert(0, str(SUITE))

import make_manifest  # noqa: E402
from alm_overlap import filter_overlaps  # noqa: E402
from alm_same_windows import (  # noqa: E402
    Case,
    Pick,
    awkward_case,
    awkward_windows,
    canonical,
    cases,
    digest,
    with_builtin,
    with_reference,
)
from alm_stand_ins import make_stand_ins  # noqa: E402
from alm_windows import NOBODY, WindowSettings  # noqa: E402

RECORD = json.loads((Path(__file__).parent / "data" / "alm_reference.json").read_text())
needs_nemo_curator = pytest.mark.skipif(
    importlib.util.find_spec("nemo_curator") is None, reason="nemo_curator is not installed: make test-curator"
)
thorough = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))


def recorded_cases() -> list[Case]:
    return list(cases(len(RECORD["digests"]), RECORD["seed"]))


@st.composite
def any_case(draw: st.DrawFn, awkward: Callable[[Pick], Case]) -> Case:
    return awkward(lambda options: draw(st.sampled_from(options)))


@pytest.fixture
def reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NeMo Curator's stages can be imported."""
    if missing := make_stand_ins(tmp_path):
        warnings.warn(f"not installed, so that empty stand-ins are used: {', '.join(missing)}", stacklevel=1)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_the_windows_are_those_on_record_from_nemo_curator() -> None:
    assert [digest(with_builtin(case)) for case in recorded_cases()] == RECORD["digests"]


def test_the_record_holds_every_corner() -> None:
    found: Counter[str] = Counter()
    for case in recorded_cases():
        result = with_builtin(case)
        found.update({name: bool(number) for name, number in result["stats"].items() if name.startswith("lost_")})
        found["truncations"] += result.get("truncation_events", 0)
        found["windows"] += len(result["windows"])
        if result["windows"]:
            found["filtered out"] += len(result["windows"]) - len(result["filtered_windows"])
            found["of the same times as one that stays"] += len(result["filtered_windows"]) - len(result["filtered"])
    assert all(number >= 3 for number in found.values()), found


@needs_nemo_curator
@pytest.mark.usefixtures("reference")
def test_the_record_is_what_nemo_curator_finds() -> None:
    assert [digest(with_reference(case)) for case in recorded_cases()] == RECORD["digests"]


@needs_nemo_curator
@pytest.mark.usefixtures("reference")
def test_any_entry_becomes_what_nemo_curator_makes_of_it() -> None:
    @thorough
    @given(any_case(awkward_case))
    def check(case: Case) -> None:
        assert canonical(with_builtin(case)) == canonical(with_reference(case))

    check()


@needs_nemo_curator
@pytest.mark.usefixtures("reference")
def test_any_windows_are_filtered_as_nemo_curator_filters_them() -> None:
    @thorough
    @given(any_case(awkward_windows))
    def check(case: Case) -> None:
        assert canonical(with_builtin(case)) == canonical(with_reference(case))

    check()


@needs_nemo_curator
@pytest.mark.usefixtures("reference")
def test_generated_recordings_become_what_nemo_curator_makes_of_them() -> None:
    for recording, _ in make_manifest.recordings(12, seed=5):
        case = Case({"audio_filepath": "x", **recording}, WindowSettings())
        assert canonical(with_builtin(case)) == canonical(with_reference(case))


def test_a_window_that_is_gone_removes_no_other() -> None:
    spans = [(0, 20), (10, 40), (15, 20)]  # the first is better than the third, and the third than the second
    entry = {"windows": [{"segments": [{"start": start, "end": end}]} for start, end in spans]}
    assert filter_overlaps(entry, 97, 15.0)["filtered"] == [(20, 0), (40, 10)]


def test_an_entry_is_left_as_it_was() -> None:
    for case in recorded_cases()[:100]:
        before = canonical(case.entry)
        with_builtin(case)
        assert canonical(case.entry) == before


def test_sums_are_those_of_what_they_sum_up() -> None:
    for case in recorded_cases():
        result = with_builtin(case)
        if result["windows"]:
            assert math.isclose(result["filtered_dur"], math.fsum(result["filtered_dur_list"]), abs_tol=1e-9)
            assert math.isclose(result["total_dur_window"], math.fsum(result["total_dur_list_window"]), abs_tol=1e-9)


def windows_in(entry: dict[str, Any]) -> make_manifest.Planted:
    result = with_builtin(Case({"audio_filepath": "x", **entry}, WindowSettings()))
    return make_manifest.Planted(len(result["windows"]), len(result["filtered_windows"]), result["filtered_dur"])


@pytest.mark.parametrize("scene", make_manifest.SCENES, ids=lambda scene: scene.__name__)
def test_a_scene_holds_the_windows_that_were_planted_in_it(scene: Any) -> None:
    for seed in range(8):
        rng = random.Random(seed)
        made = scene(rng.randrange(80) / 8, rng)
        assert windows_in({"audio_sample_rate": 16000, "segments": made.segments}) == made.planted


def test_planted_recordings_hold_what_is_noted_of_them() -> None:
    made = [(recording, planted) for recording, planted in make_manifest.recordings(24, seed=3) if planted is not None]
    assert [windows_in(recording) for recording, _ in made] == [known for _, known in made]
    assert len({known for _, known in made}) > 3


def test_generated_recordings_hold_every_difficulty() -> None:
    segments = [one for recording, _ in make_manifest.recordings(16, seed=1) for one in recording["segments"]]
    pairs = list(pairwise(segments))
    assert any(later["start"] < earlier["end"] for earlier, later in pairs)
    assert any((later["start"], later["end"]) == (earlier["start"], earlier["end"]) for earlier, later in pairs)
    assert any("speaker" not in one for one in segments)
    assert any(one.get("speaker") == NOBODY for one in segments)
    assert any(one["metrics"]["bandwidth"] < 8000 for one in segments)


def test_the_same_seed_makes_the_same_manifest_and_another_size_more_of_it(tmp_path: Path) -> None:
    for folder, count, seed in (("first", 4, 7), ("again", 4, 7), ("larger", 6, 7), ("other", 4, 8)):
        make_manifest.write_manifest(tmp_path / folder, count, seed)
    manifests = {path.name: (path / "manifest.jsonl").read_text() for path in tmp_path.iterdir()}
    assert manifests["first"] == manifests["again"] != manifests["other"]
    assert manifests["larger"].startswith(manifests["first"])
