"""Makes English-looking texts and LaTeX papers with defects planted in them: the same for the same size and seed.

Into OUT go texts/, as JSON lines, and truth.jsonl: for each text the filter that must reject it, if any does, or what
the modifiers must make of it; papers/, as archives, and papers_truth.jsonl, with the text each paper must become. It
imports nothing beside it: a dataset is made anew when this file or its arguments change.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import random
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

SIZES = {"S": (2_000, 4), "M": (40_000, 20), "L": (400_000, 100)}
"""Texts and files. For every ten texts there is a paper, in as many archives."""

SPOILED = 0.3
"""The share of texts that a filter must reject; each filter in turn."""
DIRTY = 0.5
"""The share of the others that the modifiers must change."""

_COMMON = ("the", "be", "to", "of", "and", "that", "have", "with")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_POLICY = "Read our Privacy Policy before you go on."
Rng = random.Random


class Planted(NamedTuple):
    """A text, and the filter that must reject it; where none does, what the modifiers must make of it."""

    text: str
    rejected_by: str | None
    modified: str | None


class Language:
    """Words, and paragraphs of sentences made of them that no filter rejects and no modifier changes."""

    def __init__(self, seed: int) -> None:
        rng = Rng(f"{seed}/words")
        self._words = ["".join(rng.choices(_LETTERS, k=rng.randint(3, 9))) for _ in range(3_000)]

    def word(self, rng: Rng) -> str:
        return rng.choice(_COMMON) if rng.random() < 0.2 else rng.choice(self._words)

    def sentence(self, rng: Rng) -> str:
        words = [self.word(rng) for _ in range(rng.randint(8, 16))]
        return f"{' '.join(words).capitalize()}."

    def paragraphs(self, rng: Rng) -> list[list[str]]:
        """Each a list of lines, with a sentence on each."""
        return [[self.sentence(rng) for _ in range(rng.randint(3, 5))] for _ in range(rng.randint(4, 8))]


Spoiler = Callable[[list[list[str]], Language, Rng], str]


def joined(paragraphs: list[list[str]]) -> str:
    return "\n\n".join("\n".join(lines) for lines in paragraphs)


# --- what filters reject ---------------------------------------------------------------------------------------------


def _insert(text: str, words: Callable[[int], str], every: int) -> str:
    """The text with a word more after so many."""
    lines = []
    number = 0
    for line in text.split("\n"):
        found = []
        for word in line.split():
            found.append(word)
            number += 1
            if number % every == 0:
                found.insert(-1, words(number))  # so that the line still ends as it did
        lines.append(" ".join(found))
    return "\n".join(lines)


def _with_lines(paragraphs: list[list[str]], change: Callable[[str], str]) -> str:
    return joined([[change(line) for line in lines] for lines in paragraphs])


def _with_words(paragraphs: list[list[str]], change: Callable[[str], str]) -> str:
    return _with_lines(paragraphs, lambda line: " ".join(map(change, line.split())))


def spoil(name: str, paragraphs: list[list[str]], language: Language, rng: Rng) -> str:
    """A text that this filter rejects, and none before it in the chain."""
    return SPOILERS[name](paragraphs, language, rng)


def _symbols(paragraphs: list[list[str]], language: Language, rng: Rng) -> str:
    return _insert(joined(paragraphs), lambda _: "~%^&=" * 2, 4)


def _dots(paragraphs: list[list[str]], language: Language, rng: Rng) -> str:
    return _insert(joined(paragraphs), lambda _: "...", 6)


def _numbers(paragraphs: list[list[str]], language: Language, rng: Rng) -> str:
    return _insert(joined(paragraphs), lambda _: str(rng.randrange(10**6, 10**7)), 4)


def _addresses(paragraphs: list[list[str]], language: Language, rng: Rng) -> str:
    return _insert(joined(paragraphs), lambda _: f"http://{language.word(rng)}.org", 3)


def _spaces(paragraphs: list[list[str]], language: Language, rng: Rng) -> str:
    return joined([[*lines, *[""] * 40] for lines in paragraphs]) + "\n" * 200


def _brackets(paragraphs: list[list[str]], language: Language, rng: Rng) -> str:
    """In place of spaces, which another filter counts too."""

    def change(line: str) -> str:
        *words, last = line.split()
        return "".join(word + "()()() "[at % 7] for at, word in enumerate(words)) + last

    return _with_lines(paragraphs, change)


def _policies(paragraphs: list[list[str]], language: Language, rng: Rng) -> str:
    return joined([[f"{first[:-1]} privacy policy.", *others] for first, *others in paragraphs])


def _same_lines(paragraphs: list[list[str]], language: Language, rng: Rng) -> str:
    line = language.sentence(rng)
    return joined([[line, lines[0], line, lines[1], line] for lines in paragraphs])


def _same_paragraphs(paragraphs: list[list[str]], language: Language, rng: Rng) -> str:
    """Short paragraphs come again, so that most lines are still unlike."""
    short = [language.sentence(rng)]
    return joined([part for lines in paragraphs for part in (lines, short)])


def _same_characters(paragraphs: list[list[str]], language: Language, rng: Rng) -> str:
    """A long line comes twice: few lines, but much of the text."""
    long = " ".join(language.sentence(rng) for _ in range(sum(map(len, paragraphs)) // 2))
    return joined([[long], *paragraphs, [*paragraphs[0][:1], long]])


def _few_words(paragraphs: list[list[str]], language: Language, rng: Rng) -> str:
    return joined([paragraphs[0][:2]])


def _no_end_marks(paragraphs: list[list[str]], language: Language, rng: Rng) -> str:
    return _with_lines(paragraphs, lambda line: line[:-1])


def _no_letters(paragraphs: list[list[str]], language: Language, rng: Rng) -> str:
    return _insert(joined(paragraphs), lambda number: f"{number % 10}!?,", 3)


def _foreign(paragraphs: list[list[str]], language: Language, rng: Rng) -> str:
    return _with_words(paragraphs, lambda word: f"x{word}" if word in _COMMON else word)


def _long_words(paragraphs: list[list[str]], language: Language, rng: Rng) -> str:
    return _with_words(paragraphs, lambda word: word if word in _COMMON else word[0] + 5 * word[1:-1] + word[-1])


def _endless_word(paragraphs: list[list[str]], language: Language, rng: Rng) -> str:
    """In a text so long that its words are of a usual length in the mean."""
    endless = "".join(rng.choices(_LETTERS, k=1001))
    more = [[language.sentence(rng)] for _ in range(20)]
    return joined([*paragraphs, *more, [f"{language.sentence(rng)[:-1]} {endless}."]])


def _ellipses(paragraphs: list[list[str]], language: Language, rng: Rng) -> str:
    return joined([[f"{line}.." if at % 2 else line for at, line in enumerate(lines)] for lines in paragraphs])


def _prevailing(gram: int, every: int) -> Spoiler:
    """The same long words, in a row, again and again, among others."""

    def spoiler(paragraphs: list[list[str]], language: Language, rng: Rng) -> str:
        row = " ".join("".join(rng.choices(_LETTERS, k=9)) for _ in range(gram))
        return _insert(joined(paragraphs), lambda _: row, every)

    return spoiler


def _bullets(paragraphs: list[list[str]], language: Language, rng: Rng) -> str:
    return _with_lines(paragraphs, lambda line: f"• {line}")


SPOILERS: dict[str, Spoiler] = {
    "alpha_numeric": _symbols,
    "symbol_to_word": _dots,
    "numbers_ratio": _numbers,
    "urls_ratio": _addresses,
    "white_space": _spaces,
    "parentheses_ratio": _brackets,
    "boilerplate_string_ratio": _policies,
    "repeated_lines": _same_lines,
    "repeated_paragraphs": _same_paragraphs,
    "repeated_lines_char": _same_characters,
    "word_count": _few_words,
    "punctuation": _no_end_marks,
    "words_without_alphabets": _no_letters,
    "common_english_words": _foreign,
    "mean_word_length": _long_words,
    "max_word_length": _endless_word,
    "ellipsis": _ellipses,
    "repeating_top_2grams": _prevailing(2, 5),
    "repeating_top_3grams": _prevailing(3, 12),
    "bullet_ratio": _bullets,
}


# --- what modifiers change -------------------------------------------------------------------------------------------


def dirty(paragraphs: list[list[str]], rng: Rng) -> tuple[str, str]:
    """A text that no filter rejects, for the modifiers, and what they must make of it."""
    clean = [[*lines] for lines in paragraphs]
    lines = [[*part] for part in paragraphs]
    for at, part in enumerate(lines):
        line = rng.randrange(len(part))
        part[line], clean[at][line] = _marked(part[line], rng)
    text = ("\n\n\n" if rng.random() < 0.3 else "\n\n").join(map("\n".join, lines))
    if rng.random() < 0.3:
        text = f"{_POLICY}\n\n{text}" if rng.random() < 0.5 else f"{text}\n\n{_POLICY}"
    return (f'"{text}"' if rng.random() < 0.3 and _POLICY not in text else text), joined(clean)


def _marked(line: str, rng: Rng) -> tuple[str, str]:
    """The line with one word marked, or an address or a link put in; and as it must be afterwards."""
    words = line.split()
    at = rng.randrange(1, len(words))
    word, before, after = words[at], words[:at], words[at + 1 :]
    address = rng.choice(("https://example.org/a?b=1", "http://example.org/x", "www.example.org"))
    as_marked, as_cleaned = rng.choice(
        (
            (f"**{word}**", word),
            (f"*{word}*", word),
            (f"_{word}_", word),
            (f"[{word}]({address})", ""),
            (address, ""),
        )
    )
    return " ".join([*before, as_marked, *after]), " ".join([*before, as_cleaned, *after])


# --- papers ----------------------------------------------------------------------------------------------------------


class PlantedPaper(NamedTuple):
    """A paper as its authors sent it in, the text it must become, and what must keep that from being written."""

    content: bytes
    text: str
    lost: str | None


def planted_paper(number: int, language: Language, seed: int) -> PlantedPaper:
    rng = Rng(f"{seed}/paper/{number}")
    kind = tuple(_PAPERS)[number % len(_PAPERS)]
    return _PAPERS[kind](_body(language, rng), language, rng)


def _body(language: Language, rng: Rng) -> list[str]:
    """Sections of sentences, a sentence on each line, as they must come out."""
    lines = []
    for section in range(rng.randint(4, 6)):
        lines.append(f"\\section{{Part {section}.}}")
        lines += [line for part in language.paragraphs(rng) for line in (*part, "")]
    return lines


def _source(body: list[str], rng: Rng) -> tuple[str, str]:
    """A LaTeX file with this body, and the text of it: without what is before and after, comments, and macros."""
    written, expected = [], []
    for line in body:
        luck = rng.random()
        if luck < 0.1:
            written.append("% nobody reads this")
        if not line or line.startswith("\\section") or luck > 0.3:
            written.append(line)
            expected.append(line)
        elif luck < 0.2:
            written.append(f"{line} % to be checked")
            expected.append(line)
        else:
            written.append(f"\\ours{{}} needs 5\\% of \\theirs, {line}")
            expected.append(f"our \\emph{{method}}{{}} needs 5\\% of the others, {line}")
    preamble = ["\\documentclass{article}", "\\newcommand{\\ours}{our \\emph{method}}", "\\def\\theirs{the others}"]
    end = rng.choice(("\\appendix", "\\begin{thebibliography}{9}", "\\bibliography{all}"))
    source = [*preamble, "\\begin{document}", "Abstract.", *written, end, "Nobody needs this.", "\\end{document}"]
    return "\n".join(source), "\n".join([*expected, ""])


def _one_file(body: list[str], language: Language, rng: Rng) -> PlantedPaper:
    source, text = _source(body, rng)
    return PlantedPaper(_zipped(source.encode()), text, None)


def _project(body: list[str], language: Language, rng: Rng) -> PlantedPaper:
    """Two files with sections, one without, which leaves an empty line, and a figure."""
    first, first_text = _source(body, rng)
    second, second_text = _source(_body(language, rng), rng)
    files = {"main.tex": first, "notes.tex": "Not in any section.", "more.tex": second, "figure.eps": "no text"}
    return PlantedPaper(
        _zipped(_tar({name: content.encode() for name, content in files.items()})),
        f"{first_text}\n\n{second_text}",
        None,
    )


def _old_letters(body: list[str], language: Language, rng: Rng) -> PlantedPaper:
    source, _ = _source(body, rng)
    return PlantedPaper(_zipped(f"% \xfcber\n{source}".encode("latin-1")), "", "unreadable")


def _no_source(body: list[str], language: Language, rng: Rng) -> PlantedPaper:
    return PlantedPaper(b"%PDF-1.5 " + rng.randbytes(2_000), "", "unreadable")


def _no_section(body: list[str], language: Language, rng: Rng) -> PlantedPaper:
    lines = [line for line in body if not line.startswith("\\section")]
    return PlantedPaper(_zipped("\n".join(lines).encode()), "", "without_text")


def _abstract_only(body: list[str], language: Language, rng: Rng) -> PlantedPaper:
    return _spoiled_paper(body[:4], "word_count", rng)


def _list_of_links(body: list[str], language: Language, rng: Rng) -> PlantedPaper:
    links = [f"http://example.org/{language.word(rng)}." for _ in range(len(body) * 2)]
    return _spoiled_paper([line for pair in zip(body, links, strict=False) for line in pair], "urls_ratio", rng)


def _table(body: list[str], language: Language, rng: Rng) -> PlantedPaper:
    return _spoiled_paper([*body, *["\\hline a and b and c."] * (3 * len(body))], "repeated_lines", rng)


def _verses(body: list[str], language: Language, rng: Rng) -> PlantedPaper:
    return _spoiled_paper([line.rstrip("}").rstrip(".") for line in body[1:]], "punctuation", rng, header=body[0])


def _spoiled_paper(body: list[str], lost: str, rng: Rng, header: str | None = None) -> PlantedPaper:
    lines = body if header is None else [header, *body]
    source = "\n".join(["\\documentclass{article}", *lines])
    return PlantedPaper(_zipped(source.encode()), "\n".join(lines), lost)


Author = Callable[[list[str], Language, Rng], PlantedPaper]
_PAPERS: dict[str, Author] = {
    author.__name__: author
    for author in (
        _one_file,
        _project,
        _old_letters,
        _no_source,
        _no_section,
        _abstract_only,
        _list_of_links,
        _table,
        _verses,
    )
}


def _zipped(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def _tar(files: dict[str, bytes]) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return archive.getvalue()


def paper_name(number: int) -> tuple[str, str]:
    """What a paper is called in an archive, and what its id is: names before 2007 have the field in them."""
    return (f"math{number:07d}", f"math/{number:07d}") if number % 2 else (f"2001.{number:05d}", f"2001.{number:05d}")


def write_papers(out: Path, papers: int, files: int, seed: int) -> None:
    (out / "papers").mkdir(parents=True, exist_ok=True)
    language = Language(seed)
    with (out / "papers_truth.jsonl").open("w", encoding="utf-8") as truth:
        for file in range(files):
            archive = {}
            for number in range(papers * file // files, papers * (file + 1) // files):
                name, its_id = paper_name(number)
                planted = planted_paper(number, language, seed)
                archive[f"2001/{name}.gz"] = planted.content
                known = {"id": its_id, "text": planted.text, "rejected_by": planted.lost}
                truth.write(json.dumps(known, ensure_ascii=False) + "\n")
            (out / "papers" / f"arXiv_src_{file:03d}.tar").write_bytes(_tar(archive))


# --- all of them -----------------------------------------------------------------------------------------------------


def planted_text(number: int, language: Language, seed: int) -> Planted:
    """Each has random numbers of its own: larger datasets begin as smaller ones."""
    rng = Rng(f"{seed}/{number}")
    paragraphs = language.paragraphs(rng)
    luck = rng.random()
    if luck < SPOILED:
        name = tuple(SPOILERS)[number % len(SPOILERS)]
        return Planted(spoil(name, paragraphs, language, rng), name, None)
    if luck < SPOILED + (1 - SPOILED) * DIRTY:
        text, expected = dirty(paragraphs, rng)
        return Planted(text, None, expected)
    text = joined(paragraphs)
    return Planted(text, None, text)


def planted_texts(count: int, seed: int) -> Iterator[Planted]:
    language = Language(seed)
    return (planted_text(number, language, seed) for number in range(count))


def write_texts(out: Path, texts: int, files: int, seed: int) -> None:
    (out / "texts").mkdir(parents=True, exist_ok=True)
    numbered = enumerate(planted_texts(texts, seed))
    with (out / "truth.jsonl").open("w", encoding="utf-8") as truth:
        for file in range(files):
            with (out / "texts" / f"part-{file:05d}.jsonl").open("w", encoding="utf-8") as part:
                for _ in range(texts * file // files, texts * (file + 1) // files):
                    number, planted = next(numbered)
                    part.write(json.dumps({"id": number, "text": planted.text}, ensure_ascii=False) + "\n")
                    known = {"id": number, "rejected_by": planted.rejected_by, "modified": planted.modified}
                    truth.write(json.dumps(known, ensure_ascii=False) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=sorted(SIZES), required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    texts, files = SIZES[options.size]
    write_texts(options.out, texts, files, options.seed)
    write_papers(options.out, texts // 10, files, options.seed)


if __name__ == "__main__":
    main()
