"""How long a pattern takes to read a context, and to say the next tokens with the context in its cache.

What is said from the cache, where only the keys that count are touched, must be what is said without one.
"""

from __future__ import annotations

import argparse
import time
from statistics import median
from typing import Any

import torch
from attention_patterns import Pattern
from attention_script import Metrics, run
from torch import Tensor


def measure(model: Any, _: Pattern, options: argparse.Namespace) -> Metrics:
    tokens = torch.randint(model.config.vocab_size, (1, options.context + options.new_tokens)).to(options.device)
    context, new = tokens[:, : options.context], tokens[:, options.context :]
    prefill = [read(model, context)[0] for _ in range(options.rounds + 1)][1:]
    seconds, _ = say(model, context, new)
    decode = median(seconds[1:])
    return {
        "prefill_s": median(prefill),
        "prefill_tokens_per_s": options.context / median(prefill),
        "decode_s": decode,
        "decode_tokens_per_s": 1 / decode,
        "cache_difference": cache_difference(model.double(), context, new),
    }


def cache_difference(model: Any, context: Tensor, new: Tensor) -> float:
    """In double precision: of two keys that are equally good but for rounding, an oracle may take either."""
    _, from_cache = say(model, context, new)
    whole = model(torch.cat([context, new], dim=1)).logits[:, context.shape[1] :]
    return float((from_cache - whole).abs().max())


def read(model: Any, context: Tensor) -> tuple[float, Any]:
    """The seconds it took, and the cache."""
    start = now(context)
    cache = model(context, use_cache=True).past_key_values
    return now(context) - start, cache


def say(model: Any, context: Tensor, new: Tensor) -> tuple[list[float], Tensor]:
    """The seconds of each new token, and the logits at each."""
    _, cache = read(model, context)
    seconds, found = [], []
    for token in new.split(1, dim=1):
        start = now(context)
        found.append(model(token, past_key_values=cache, use_cache=True).logits)
        seconds.append(now(context) - start)
    return seconds, torch.cat(found, dim=1)


def now(where: Tensor) -> float:
    """When all that was asked of the device is done."""
    if where.is_cuda:
        torch.cuda.synchronize(where.device)
    return time.perf_counter()


if __name__ == "__main__":
    own = argparse.ArgumentParser(description=__doc__)
    own.add_argument("--new-tokens", type=int, default=32)
    own.add_argument("--rounds", type=int, default=5, help="how often the context is read")
    run(measure, own)
