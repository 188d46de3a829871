"""Which keys a query looks at: dense, streaming, local and oracle top-k attention, through transformers' own interface.

A pattern is three numbers, so that a matrix can say a new one: how many of the first tokens are always looked at, how
many of the newest, and how many of the best.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface


@dataclass(frozen=True)
class Pattern:
    """The keys a query looks at, among those before it and itself. 0 is no limit."""

    sinks: int = 0
    """With a window: the first so many keys are looked at as well."""
    window: int = 0
    """The newest so many keys, the query's own among them."""
    top: int = 0
    """The so many keys of the highest scores. All scores are worked out for it: an oracle, to measure others by."""

    def keys_per_query(self, length: int) -> int:
        """At most; a query at the start of a text has fewer before it."""
        limits = [self.sinks + self.window if self.window else length, self.top or length]
        return min(length, *limits)

    def with_full_budget(self, length: int) -> Pattern:
        """The same pattern, so generous that for this length it must be dense attention."""
        return replace(self, window=self.window and length, top=self.top and length)

    def kept(self, scores: Tensor) -> Tensor:
        """Where a query looks. `scores`: queries by keys in the last two dimensions, the last query at the last key."""
        queries, keys = scores.shape[-2:]
        newest = torch.arange(keys - queries, keys, device=scores.device)[:, None]
        places = torch.arange(keys, device=scores.device)[None, :]
        kept = places <= newest
        if self.window:
            kept = kept & ((places > newest - self.window) | (places < self.sinks))
        kept = kept.expand(scores.shape)
        if 0 < self.top < keys:
            best = scores.masked_fill(~kept, -torch.inf).topk(self.top, dim=-1).indices
            kept = kept & torch.zeros_like(kept).scatter(-1, best, True)
        return kept

    def nearest_only(self, states: Tensor) -> Tensor:
        """The keys or values that a single query at the end looks at: with a window the others need not be touched."""
        length = states.shape[-2]
        if not self.window or length <= self.sinks + self.window:
            return states
        return torch.cat([states[..., : self.sinks, :], states[..., -self.window :, :]], dim=-2)


DENSE = Pattern()


def attend(
    pattern: Pattern,
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """Attention as transformers calls it: the heads' outputs, and the map of who looked at whom."""
    if query.shape[-2] == 1:
        key, value = pattern.nearest_only(key), pattern.nearest_only(value)
        pattern = replace(pattern, window=0)
    groups = module.num_key_value_groups
    key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    scores = query @ key.transpose(-1, -2) * scaling
    scores = scores.masked_fill(~pattern.kept(scores), -torch.inf)
    precision = torch.promote_types(query.dtype, torch.float32)
    weights = torch.softmax(scores, dim=-1, dtype=precision).to(query.dtype)
    return (weights @ value).transpose(1, 2).contiguous(), weights


def use(model: Any, pattern: Pattern) -> None:
    """From now on the model attends so."""
    name = f"pattern_{pattern.sinks}_{pattern.window}_{pattern.top}"
    AttentionInterface.register(name, functools.partial(attend, pattern))
    model.set_attn_implementation(name)
