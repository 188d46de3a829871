"""The heuristic filters of English texts that NeMo Curator's nightly chains, in its order and with its limits.

A text is split into words, lines and paragraphs once for all of them, and the first filter that rejects it ends the
chain. The verdicts are NeMo Curator's, except that a text without words is rejected here and an error there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from itertools import islice

Verdict = Callable[["Text"], bool]
"""True if the text stays."""
Gram = tuple[str, ...]

_NOT_PLAIN = re.compile(r"[^a-zA-Z0-9\n?!,.]")
_DIGIT = re.compile(r"\d")
_URL = re.compile(r"https?://(?:[A-Za-z0-9$\-_@.&+/:=?#~]|[!*\(\),]|(?:%[0-9A-Fa-f]{2}))+")
_WHITE = re.compile("[\t\n\r\b ]")
_BRACKET = re.compile(r"[{}⟨⟩\[\]()]")
_HASHES = re.compile("#+")
_END_MARKS = (".", "?", "!", '"', "'")
_ELLIPSES = ("...", "[...]", "…", "(...)", "[…]", "-»", "read more..", "read more")
_BULLETS = tuple("•‣⁃⁌⁍∙○●◘◦⦾⦿")
_COMMON = frozenset(("the", "be", "to", "of", "and", "that", "have", "with"))
POLICIES = (
    "terms of use",
    "privacy policy",
    "cookie policy",
    "uses cookies",
    "privacy overview",
    "use of cookies",
    "use cookies",
    "privacy & cookies policy",
    "privacy and cookies policy",
)
"""What marks a paragraph as boilerplate. Two of NeMo Curator's five long sentences hold one of these."""
LONG_POLICIES = (
    "any cookies that may not be particularly necessary for the website to function and is used specifically to "
    "collect user personal data via analytics, ads, other embedded contents are termed as non-necessary cookies. it is "
    "mandatory to procure user consent prior to running these cookies on your website.",
    "necessary cookies are absolutely essential for the website to function properly. this category only includes "
    "cookies that ensures basic functionalities and security features of the website. these cookies do not store any "
    "personal information.",
    "if you continue to browse this site without changing your cookie settings, you agree to this use. acceptread more",
)


class Text:
    """A text, and its parts, each split off when it is first asked for."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def words(self) -> list[str]:
        return self.text.split()

    @cached_property
    def lines(self) -> list[str]:
        return [line for line in self.text.split("\n") if line.strip()]

    @cached_property
    def paragraphs(self) -> list[str]:
        return self.text.split("\n\n")

    def grams(self, length: int) -> list[Gram]:
        return list(zip(*(islice(self.words, start, None) for start in range(length)), strict=False))

    def share(self, pattern: re.Pattern[str]) -> float:
        """What part of the characters the matches are."""
        return sum(map(len, pattern.findall(self.text))) / len(self.text)


def rejected_by(text: str, chain: Mapping[str, Verdict] | None = None) -> str | None:
    """The name of the first filter that rejects the text; of FILTERS, unless other ones are given."""
    parts = Text(text)
    if not parts.words:
        return "without_words"
    return next((name for name, stays in (chain or FILTERS).items() if not stays(parts)), None)


def is_boilerplate(paragraph: str) -> bool:
    lower = paragraph.strip().lower()
    return any(policy in lower for policy in (*POLICIES, *LONG_POLICIES))


def _at_most(pattern: re.Pattern[str], limit: float) -> Verdict:
    return lambda text: text.share(pattern) <= limit


def _few_symbols(text: Text) -> bool:
    return sum(map(_is_symbol, text.words)) / len(text.words) <= 0.1


def _is_symbol(word: str) -> bool:
    """An ellipsis, or mostly runs of hashes."""
    return word in _ELLIPSES or len(_HASHES.findall(word)) / len(word) > 0.5


def _little_boilerplate(text: Text) -> bool:
    if "lorem ipsum" in text.text.lower():
        return False
    return sum(map(is_boilerplate, text.paragraphs)) / len(text.paragraphs) <= 0.4


def _unlike(parts: Callable[[Text], list[str]], least: float, text: Text) -> bool:
    found = parts(text)
    return len(set(found)) / len(found) >= least


def _unlike_by_characters(parts: Callable[[Text], list[str]], least: float, text: Text) -> bool:
    found = parts(text)
    return sum(map(len, set(found))) / sum(map(len, found)) >= least


def _lines(text: Text) -> list[str]:
    return text.lines


def _paragraphs(text: Text) -> list[str]:
    return text.paragraphs


def _word_count(least: int, most: int, text: Text) -> bool:
    return least <= len(text.words) <= most


def _ends_sentences(most_without: float, text: Text) -> bool:
    without = sum(1 for line in text.lines if not line.strip().endswith(_END_MARKS))
    return without / len(text.lines) <= most_without


def _words_have_letters(text: Text) -> bool:
    return sum(1 for word in text.words if any(map(str.isalpha, word))) / len(text.words) >= 0.8


def _is_english(text: Text) -> bool:
    common = (word for word in text.words if word in _COMMON)
    return len(list(islice(common, 2))) == 2


def _mean_word_length(text: Text) -> bool:
    return 3 <= sum(map(len, text.words)) / len(text.words) <= 10


def _no_long_word(text: Text) -> bool:
    return max(map(len, text.words)) <= 1000


def _few_ellipses(text: Text) -> bool:
    return sum(1 for line in text.lines if line.strip().lower().endswith(_ELLIPSES)) / len(text.lines) <= 0.3


def _few_bullets(text: Text) -> bool:
    return sum(1 for line in text.lines if line.strip().startswith(_BULLETS)) / len(text.lines) <= 0.9


def _no_gram_prevails(length: int, most: float, text: Text) -> bool:
    """The most frequent n-gram is a small part of the text. Of several as frequent the first counts."""
    if len(text.words) < length:
        return False
    ((gram, _),) = Counter(text.grams(length)).most_common(1)
    removed = len(text.text) - len(text.text.replace(" ".join(gram), ""))
    return removed / len(text.text) <= most


def _few_grams_twice(length: int, most: float, text: Text) -> bool:
    """The characters of n-grams that were there before, each counted once, are a small part of the text."""
    if len(text.words) < length:
        return False
    seen: set[Gram] = set()
    characters, counted = 0, 0
    for gram in text.grams(length):
        if gram in seen:
            characters += sum(map(len, gram[counted:])) + min(length - counted, length - 1)
            counted = length
        seen.add(gram)
        counted = max(counted - 1, 0)
    return characters / len(text.text) <= most


FILTERS: dict[str, Verdict] = {
    "alpha_numeric": _at_most(_NOT_PLAIN, 0.25),
    "symbol_to_word": _few_symbols,
    "numbers_ratio": _at_most(_DIGIT, 0.15),
    "urls_ratio": _at_most(_URL, 0.2),
    "white_space": _at_most(_WHITE, 0.25),
    "parentheses_ratio": _at_most(_BRACKET, 0.1),
    "boilerplate_string_ratio": _little_boilerplate,
    "repeated_lines": partial(_unlike, _lines, 0.7),
    "repeated_paragraphs": partial(_unlike, _paragraphs, 0.7),
    "repeated_lines_char": partial(_unlike_by_characters, _lines, 0.8),
    "repeated_paragraphs_char": partial(_unlike_by_characters, _paragraphs, 0.8),
    "word_count": partial(_word_count, 50, 100_000),
    "punctuation": partial(_ends_sentences, 0.85),
    "words_without_alphabets": _words_have_letters,
    "common_english_words": _is_english,
    "mean_word_length": _mean_word_length,
    "max_word_length": _no_long_word,
    "ellipsis": _few_ellipses,
    "repeating_top_2grams": partial(_no_gram_prevails, 2, 0.2),
    "repeating_top_3grams": partial(_no_gram_prevails, 3, 0.18),
    "repeating_top_4grams": partial(_no_gram_prevails, 4, 0.16),
    "repeating_dup_5gram": partial(_few_grams_twice, 5, 0.15),
    "repeating_dup_6gram": partial(_few_grams_twice, 6, 0.14),
    "repeating_dup_7gram": partial(_few_grams_twice, 7, 0.13),
    "repeating_dup_8gram": partial(_few_grams_twice, 8, 0.12),
    "repeating_dup_9gram": partial(_few_grams_twice, 9, 0.11),
    "repeating_dup_10gram": partial(_few_grams_twice, 10, 0.10),
    "bullet_ratio": _few_bullets,
}
"""By NeMo Curator's names, in the order of its heuristic_filter_english_pipeline.yaml."""

FILTERS_OF_PAPERS: dict[str, Verdict] = {
    "word_count": partial(_word_count, 100, 500_000),
    "urls_ratio": _at_most(_URL, 0.1),
    "repeated_lines": partial(_unlike, _lines, 0.5),
    "repeating_top_2grams": partial(_no_gram_prevails, 2, 0.3),
    "punctuation": partial(_ends_sentences, 0.9),
}
"""Those of its arXiv pipeline, before it asks models for the language and the quality."""
