"""What the text suite promises: NeMo Curator's verdicts and texts, and of what was planted nothing is missed."""

from __future__ import annotations

import importlib
import importlib.util
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from scripts_on_ray import metrics_of, small_cluster

from curator_bench.cluster.model import Cluster
from curator_bench.matrix import LoadRequest, command_of, load

SUITE = Path(__file__).parents[2] / "benchmarks" / "text"
sys.path.insert(0, str(SUITE))

import make_texts  # noqa: E402
from heuristics import FILTERS, Text, rejected_by  # noqa: E402
from latex_text import Paper, text_of  # noqa: E402
from make_texts import SPOILERS, Language, planted_texts  # noqa: E402
from modifiers import modified, without_boilerplate, without_quotes  # noqa: E402

needs_nemo_curator = pytest.mark.skipif(
    importlib.util.find_spec("nemo_curator") is None, reason="nemo_curator is not installed: make test-curator"
)
LANGUAGE = Language(seed=1)

# What is planted


@pytest.mark.parametrize("name", SPOILERS)
def test_a_spoiled_text_is_rejected_by_the_filter_it_was_spoiled_for(name: str) -> None:
    for number in range(20):
        rng = random.Random(f"{name}/{number}")
        assert rejected_by(make_texts.spoil(name, LANGUAGE.paragraphs(rng), LANGUAGE, rng)) == name


def test_other_texts_stay_and_become_what_they_were_made_of() -> None:
    for number in range(100):
        rng = random.Random(number)
        paragraphs = LANGUAGE.paragraphs(rng)
        text, expected = make_texts.dirty(paragraphs, rng)
        assert rejected_by(text) is None
        assert modified(text) == expected
        clean = make_texts.joined(paragraphs)
        assert rejected_by(clean) is None
        assert modified(clean) == clean


def test_a_larger_dataset_begins_as_a_smaller_one() -> None:
    assert list(planted_texts(40, seed=2))[:10] == list(planted_texts(10, seed=2))


# Filters that others come before in every planted text


def unlike_words(count: int) -> str:
    return " ".join(f"w{number:03d}" for number in range(count))


@pytest.mark.parametrize("length", range(5, 11))
def test_grams_that_come_again_are_counted_once_for_each_character(length: int) -> None:
    """The row comes twice more: that often, a share of the text that is above or below the limit."""
    stays = FILTERS[f"repeating_dup_{length}gram"]
    row = unlike_words(length)
    repeated = len(row) * 2
    limit = {5: 0.15, 6: 0.14, 7: 0.13, 8: 0.12, 9: 0.11, 10: 0.10}[length]
    for share, expected in ((limit + 0.01, False), (limit - 0.01, True)):
        others = " ".join(f"x{number:03d}" for number in range(200))[: int(repeated / share) - repeated - len(row) - 4]
        text = f"{row} a {row} b {row} {others}"
        assert stays(Text(text)) is expected, share


def test_a_row_of_words_that_prevails_is_rejected() -> None:
    row = unlike_words(4)
    often = " ".join(f"{row} y{number:02d}" for number in range(8))
    assert not FILTERS["repeating_top_4grams"](Text(often))
    assert FILTERS["repeating_top_4grams"](Text(f"{unlike_words(60)} {row}"))


def test_paragraphs_that_come_again_are_weighed_by_their_characters() -> None:
    stays = FILTERS["repeated_paragraphs_char"]
    assert not stays(Text("\n\n".join(["a" * 30, "b" * 30, "c" * 5, "d" * 5, "a" * 30])))
    assert stays(Text("\n\n".join(["a" * 30, "b" * 30, "c" * 5, "d" * 5, "c" * 5])))


@pytest.mark.parametrize("text", ["", " \n\n\t"])
def test_a_text_without_words_is_rejected(text: str) -> None:
    assert rejected_by(text) == "without_words"


# Modifiers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Our cookie policy.\n\nA\n\nB", "A\n\nB"),
        ("A\n\nB\n\nTerms of use\n\nWe use cookies", "A\n\nB"),
        ("A\n\nTerms of use\n\nB", "A\n\nTerms of use\n\nB"),
        ("Terms of use\n\nA\n\nTerms of use", "Terms of use\n\nA\n\nTerms of use"),
        ("Terms of use", "Terms of use"),
        ("A\n\nLorem Ipsum dolor", ""),
    ],
)
def test_boilerplate_goes_from_the_top_or_the_bottom(text: str, expected: str) -> None:
    assert without_boilerplate(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [('"a b"', "a b"), ('"a"\nb"', '"a"\nb"'), ('"a\nb"', "a\nb"), ('"a', '"a'), ('""', '""'), ("", "")],
)
def test_quotation_marks_around_all_of_a_text_go(text: str, expected: str) -> None:
    assert without_quotes(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("**a** *b* _c_ [d](http://e.org/f) g", "a b c  g"),
        ("a\n\n\n\n\nb", "a\n\nb"),
        ("a\r\n\r\n\r\n\r\nb", "a\r\n\r\nb"),
        ("see WWW.example.org/x, or https://example.org", "see  or "),
    ],
)
def test_modifiers_leave_the_text(text: str, expected: str) -> None:
    assert modified(text) == expected


# NeMo Curator's own


@needs_nemo_curator
def test_every_verdict_is_that_of_nemo_curators_chain() -> None:
    """By its own list. Of n-grams that are as frequent it takes any, so that these verdicts are not compared."""
    import nemo_curator

    config = Path(nemo_curator.__path__[0], "config", "text", "heuristic_filter_english_pipeline.yaml")
    stages = yaml.safe_load(config.read_text())["stages"]
    theirs = [_made(stage["filter_obj"]) for stage in stages if "filter_obj" in stage]
    assert [one.name for one in theirs] == list(FILTERS)
    for planted in planted_texts(150, seed=3):
        expected = {one.name: one.keep_document(one.score_document(planted.text)) for one in theirs}
        first = next((name for name, stays in expected.items() if not stays), None)
        assert rejected_by(planted.text) == first == planted.rejected_by
        found = {name: stays(Text(planted.text)) for name, stays in FILTERS.items()}
        different = {name for name in FILTERS if found[name] != expected[name]}
        assert not {name for name in different if not name.startswith("repeating_top")}


def _made(spec: dict[str, Any]) -> Any:
    module, name = spec["_target_"].rsplit(".", 1)
    options = {key: value for key, value in spec.items() if key != "_target_"}
    return getattr(importlib.import_module(module), name)(**options)


@needs_nemo_curator
def test_every_text_is_modified_as_by_nemo_curator() -> None:
    from nemo_curator.stages.text.modifiers import string

    names = ("BoilerPlateStringModifier", "MarkdownRemover", "NewlineNormalizer", "QuotationRemover", "UrlRemover")
    theirs: list[Callable[[str], str]] = [getattr(string, name)().modify_document for name in names]
    for planted in planted_texts(300, seed=4):
        text = planted.text
        for modify in theirs:
            text = modify(text)
        assert modified(planted.text) == text


@needs_nemo_curator
def test_the_text_of_every_paper_is_that_of_nemo_curators_extractor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its package of downloads imports libraries that the extractor does not need."""
    import nemo_curator

    downloads = ModuleType("nemo_curator.stages.text.download")
    vars(downloads)["DocumentExtractor"] = object
    monkeypatch.setitem(sys.modules, downloads.__name__, downloads)
    file = Path(nemo_curator.__path__[0], "stages", "text", "download", "arxiv", "extract.py")
    spec = importlib.util.spec_from_file_location("arxiv_extract", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    extractor = module.ArxivExtractor()
    for sources in SOURCES:
        record = extractor.extract({"content": sources})
        assert text_of(Paper("x", sources)) == (record["text"] if record else None)


# Papers

FIRST = r"""\documentclass{article}
\newcommand{\foo}{Foo}
\newcommand*{\bar}{\emph{B}}
\def\baz{z}
\begin{document}
\section{Intro} Hello \foo{} and \bar, \baz. 50\% of % a comment
%gone
text\foo2 x\fool y
\subsection*[s]{Two} more
\appendix no
"""
SOURCES = [
    [FIRST],
    [FIRST, r"\section{More} of \baz. \bibliography{x} z"],
    ["no header at all", FIRST],
    ["no header at all"],
    [r"\paragraph{A}\subparagraph{B} x"],
    [r"\paragraph{A} x \section{B} y\begin{references} z"],
    [""],
]


def test_a_paper_is_read_from_its_first_header_to_its_references() -> None:
    text = text_of(Paper("x", [FIRST]))
    expected = r"""\section{Intro} Hello Foo{} and \emph{B}, z. 50\% of
text\foo2 x\fool y
\subsection*[s]{Two} more
"""
    assert text == expected


def test_a_paper_without_a_section_has_no_text() -> None:
    assert text_of(Paper("x", ["no header at all"])) is None


def test_the_script_writes_the_texts_of_papers(tmp_path: Path) -> None:
    make_texts.write_papers(tmp_path, papers=36, files=2, seed=1)
    metrics = run(tmp_path, "arxiv")
    assert (metrics["num_papers"], metrics["num_documents_processed"], metrics["num_kept_documents"]) == (36, 24, 8)
    for name in ("wrongly_kept", "wrongly_rejected", "rejected_by_another", "differing_documents"):
        assert metrics[name] == 0
    ids = [json.loads(line)["id"] for part in (tmp_path / "out").iterdir() for line in part.read_text().splitlines()]
    assert {"2001.00000", "math/0000001"} <= set(ids)


# The script


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with small_cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


def given(operation: str, folder: Path) -> list[str | Path]:
    is_arxiv = operation == "arxiv"
    truth = folder / ("papers_truth.jsonl" if is_arxiv else "truth.jsonl")
    return ["--input-path", folder / ("papers" if is_arxiv else "texts"), "--truth-path", truth]


def run(tmp_path: Path, operation: str) -> dict[str, Any]:
    words = [
        "--operation",
        operation,
        "--executor",
        "processes",
        "--output-path",
        tmp_path / "out",
        *given(operation, tmp_path),
    ]
    words += ["--benchmark-results-path", tmp_path / "results"]
    command = list(map(str, [sys.executable, SUITE / "text_pipeline.py", *words]))
    subprocess.run(command, check=True, timeout=120, capture_output=True)
    metrics: dict[str, Any] = json.loads((tmp_path / "results" / "metrics.json").read_text())
    return metrics


def test_the_script_writes_the_texts_that_no_filter_rejects(tmp_path: Path) -> None:
    make_texts.write_texts(tmp_path, texts=120, files=3, seed=1)
    metrics = run(tmp_path, "score_filter")
    kept = [planted.text for planted in planted_texts(120, seed=1) if planted.rejected_by is None]
    lines = [line for part in sorted((tmp_path / "out").glob("*")) for line in part.read_text("utf-8").splitlines()]
    assert [json.loads(line)["text"] for line in lines] == kept
    assert metrics["num_documents_processed"] == 120
    assert metrics["num_kept_documents"] == len(kept)
    assert [metrics[name] for name in ("wrongly_kept", "wrongly_rejected", "rejected_by_another")] == [0, 0, 0]


def test_a_text_that_should_have_been_rejected_is_counted(tmp_path: Path) -> None:
    make_texts.write_texts(tmp_path, texts=40, files=1, seed=1)
    truth = [json.loads(line) for line in (tmp_path / "truth.jsonl").read_text().splitlines()]
    kept = next(row for row in truth if row["rejected_by"] is None)
    rejected = next(row for row in truth if row["rejected_by"] is not None)
    kept["rejected_by"], rejected["rejected_by"] = "bullet_ratio", None
    (tmp_path / "truth.jsonl").write_text("".join(json.dumps(row) + "\n" for row in truth))
    metrics = run(tmp_path, "score_filter")
    assert (metrics["wrongly_kept"], metrics["wrongly_rejected"]) == (1, 1)
    assert metrics["rejected_by_another"] > 0


def test_a_text_that_is_modified_wrongly_is_counted(tmp_path: Path) -> None:
    make_texts.write_texts(tmp_path, texts=40, files=2, seed=1)
    truth = [json.loads(line) for line in (tmp_path / "truth.jsonl").read_text().splitlines()]
    wrong = next(row for row in truth if row["modified"] is not None)
    wrong["modified"] += "!"
    (tmp_path / "truth.jsonl").write_text("".join(json.dumps(row) + "\n" for row in truth))
    metrics = run(tmp_path, "modifier")
    assert (metrics["num_modified_documents"], metrics["missing_documents"]) == (40, 0)
    assert metrics["differing_documents"] == 1


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("pyarrow") is None, reason="Ray Data is not installed: curator-bench[data]"
)
@pytest.mark.parametrize("operation", ["score_filter", "modifier", "arxiv"])
def test_on_ray_the_same_is_written_as_without(operation: str, cluster: Cluster, tmp_path: Path) -> None:
    make_texts.write_texts(tmp_path, texts=40, files=2, seed=1)
    make_texts.write_papers(tmp_path, papers=18, files=2, seed=1)
    expected = run(tmp_path, operation)
    words: list[str | Path] = ["--operation", operation, "--executor", "ray_data"]
    words += ["--output-path", tmp_path / "on_ray", *given(operation, tmp_path)]
    metrics = metrics_of(cluster, SUITE / "text_pipeline.py", tmp_path / "ray_results", *words)
    assert metrics["num_documents_processed"] == expected["num_documents_processed"] > 0
    for part in (tmp_path / "out").iterdir():
        assert (tmp_path / "on_ray" / part.name).read_text("utf-8") == part.read_text("utf-8")


def test_the_matrix_has_every_operation_with_ray_and_without() -> None:
    matrix = load(LoadRequest(files=(SUITE / "matrix.yaml",), variables={}))
    assert not matrix.warnings
    assert not [entry for entry in matrix.entries if command_of(entry, {}).problems]
    assert {entry.id for entry in matrix.entries} == {
        "score_filter[ray_data]",
        "modifier[ray_data]",
        "score_filter_without_ray[processes]",
        "modifier_without_ray[processes]",
        "arxiv[ray_data]",
        "arxiv_without_ray[processes]",
    }
