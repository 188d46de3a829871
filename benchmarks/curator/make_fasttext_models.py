"""Trains two small fastText models for fasttext_filter, the same each time: of languages, and of good and bad texts.

They stand in for lid.176.bin and for a model of one's own. What they judge is of no use.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

WORDS = {
    "en": "the of and to in is that it was for on are with as be at this have from or",
    "de": "der die und in den von zu das mit sich des auf ist im dem nicht ein eine als auch",
    "fr": "le de un et en que les des est pour dans ce il qui ne sur se pas plus par",
}
EXAMPLES = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    try:
        import fasttext
    except ImportError:
        sys.exit("not installed: fasttext (pip install fasttext-wheel)")
    options.out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(1)
    kinds = {"lid.176.bin": WORDS, "model.bin": {"hq": WORDS["en"], "cc": "click here buy now cookies login cart sale"}}
    for name, words in kinds.items():
        with tempfile.TemporaryDirectory() as folder:
            examples = Path(folder) / "examples.txt"
            examples.write_text("\n".join(lines(words, rng)) + "\n")
            model = fasttext.train_supervised(
                str(examples), epoch=5, dim=8, minn=2, maxn=4, thread=1, seed=1, verbose=0
            )
            model.save_model(str(options.out / name))
    print(f"{len(kinds)} models")


def lines(words: dict[str, str], rng: random.Random) -> list[str]:
    found = [
        (label, " ".join(rng.choices(text.split(), k=12))) for label, text in words.items() for _ in range(EXAMPLES)
    ]
    rng.shuffle(found)
    return [f"__label__{label} {text}" for label, text in found]


if __name__ == "__main__":
    main()
