"""Needle in a haystack, on the attention maps: is the needle found, and how much of what dense attention sees is left.

The haystack is random tokens; the needle is one token of another kind, and the last token is of that kind too. It is
found when, in some head of the first layer, no other token but the last itself is looked at more.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import torch
from attention_patterns import DENSE, Pattern, use
from attention_script import Metrics, run
from torch import Tensor


def measure(model: Any, pattern: Pattern, options: argparse.Namespace) -> Metrics:
    budget = pattern.keys_per_query(options.context)
    oracle = Pattern(top=budget)
    rows = [one_needle(model, pattern, oracle, options, depth) for depth in depths(options.context, options.needles)]
    means = {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}
    found, dense_found, kept = means["found"], means["found_by_dense"], means["kept"]
    return {
        "retrieval_rate": found,
        "dense_retrieval_rate": dense_found,
        "reachable_rate": kept,
        "unexplained_needles": sum(row["found"] != (row["kept"] and row["found_by_dense"]) for row in rows),
        "mass_kept": means["mass"],
        "mass_kept_by_oracle": means["mass_of_oracle"],
        "oracle_lead": means["mass_of_oracle"] - means["mass"],
        "mass_on_the_future": means["mass_on_the_future"],
        "row_sum_error": max(row["row_sum_error"] for row in rows),
    }


def depths(context: int, needles: int) -> list[int]:
    """Places from the first token to the last but one."""
    return [round(number * (context - 2) / (needles - 1)) for number in range(needles)]


def one_needle(
    model: Any, pattern: Pattern, oracle: Pattern, options: argparse.Namespace, depth: int
) -> dict[str, float]:
    tokens = haystack(model.config.vocab_size, options.context, depth, options.seed).to(options.device)
    dense, own = maps(model, DENSE, tokens), maps(model, pattern, tokens)
    last_query = dense[:1, :, -1:]
    last_kept = replace(pattern).kept(last_query)[0, :, 0, depth]
    seen = torch.ones_like(own[0, 0], dtype=torch.bool).tril()
    return {
        "found": float(is_found(own[0], depth).any()),
        "found_by_dense": float(is_found(dense[0], depth).any()),
        "kept": float((last_kept & is_found(dense[0], depth)).any()),
        "mass": mass(dense, pattern),
        "mass_of_oracle": mass(dense, oracle),
        "mass_on_the_future": float(own.masked_fill(seen, 0).sum()),
        "row_sum_error": float((own.sum(-1) - 1).abs().max()),
    }


def haystack(vocabulary: int, context: int, depth: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed * 1_000_003 + depth)
    tokens = torch.randint(vocabulary - 1, (1, context), generator=generator)
    tokens[0, [depth, context - 1]] = vocabulary - 1
    return tokens


def maps(model: Any, pattern: Pattern, tokens: Tensor) -> Tensor:
    """Layers by heads by queries by keys."""
    use(model, pattern)
    return torch.cat(model(tokens, output_attentions=True).attentions)


def is_found(layer: Tensor, depth: int) -> Tensor:
    """By head: whether the last query looks at the needle more than at anything else but itself."""
    last = layer[:, -1, :-1]
    return (last.argmax(-1) == depth) & (last[:, depth] > 0)


def mass(dense: Tensor, pattern: Pattern) -> float:
    """The part of what dense attention looks at that the pattern would let it see, on average over all queries."""
    return float((dense * pattern.kept(dense)).sum(-1).mean())


if __name__ == "__main__":
    own = argparse.ArgumentParser(description=__doc__)
    own.add_argument("--needles", type=int, default=12, help="how many, at different depths")
    run(measure, own)
