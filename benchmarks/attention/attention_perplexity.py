"""What a pattern does to what a model says: the shift of perplexity against dense attention, and its divergence.

The other metrics must be zero, or nearly so, whatever the model is: a pattern that may look at everything is dense
attention, dense attention is what transformers itself computes, and the same computed twice is the same.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from attention_patterns import DENSE, Pattern, use
from attention_script import Metrics, read_texts, run
from torch import Tensor


def measure(model: Any, pattern: Pattern, options: argparse.Namespace) -> Metrics:
    tokens = read_texts(options.model, options.context, options.device)
    model.set_attn_implementation("sdpa")
    theirs = logits(model, tokens)
    dense, again = logits_of(model, DENSE, tokens), logits_of(model, DENSE, tokens)
    own = logits_of(model, pattern, tokens)
    generous = logits_of(model, pattern.with_full_budget(options.context), tokens)
    perplexity, dense_perplexity = perplexity_of(own, tokens), perplexity_of(dense, tokens)
    return {
        "perplexity": perplexity,
        "dense_perplexity": dense_perplexity,
        "perplexity_shift": perplexity / dense_perplexity - 1,
        "kl_from_dense": divergence(dense, own),
        "same_next_token": float((own.argmax(-1) == dense.argmax(-1)).double().mean()),
        "dense_against_dense_shift": perplexity_of(again, tokens) / dense_perplexity - 1,
        "full_budget_difference": largest_difference(generous, dense),
        "transformers_difference": largest_difference(theirs, dense),
    }


def logits_of(model: Any, pattern: Pattern, tokens: Tensor) -> Tensor:
    use(model, pattern)
    return logits(model, tokens)


def logits(model: Any, tokens: Tensor) -> Tensor:
    """Text by text, which takes less memory, and on a CPU no longer."""
    return torch.cat([model(text[None]).logits for text in tokens])


def perplexity_of(found: Tensor, tokens: Tensor) -> float:
    losses = torch.nn.functional.cross_entropy(found[:, :-1].flatten(0, 1).double(), tokens[:, 1:].flatten())
    return float(losses.exp())


def divergence(dense: Tensor, own: Tensor) -> float:
    """Kullback and Leibler's, in nats per token."""
    wanted, given = dense.double().log_softmax(-1), own.double().log_softmax(-1)
    return float((wanted.exp() * (wanted - given)).sum(-1).mean())


def largest_difference(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max())


if __name__ == "__main__":
    run(measure, argparse.ArgumentParser(description=__doc__))
