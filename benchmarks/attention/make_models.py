"""Makes the models of the attention suite: of the Llama type, with random weights from a fixed seed, and texts of each.

Nothing is downloaded. Two things make random models worth looking at. Keys are projected as queries are, so a token
finds another of its kind far away: something a pattern can lose. And the texts are sampled from the model itself, so
that dense attention is what suits them, and a shift of perplexity is a loss.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.utils.logging import disable_progress_bar

HEAD_SIZE = 64
VOCABULARY = 512
SHAPES = {
    "tiny": {"num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 2, "num_key_value_heads": 2},
    "small": {"num_hidden_layers": 4, "hidden_size": 192, "num_attention_heads": 4, "num_key_value_heads": 2},
}
# Of a score between a token and another of its kind; the larger, the less is seen of anything else.
SHARPNESS = 1.0
LOGITS = 2.0


def make_model(shape: dict[str, int], seed: int) -> Any:
    config = LlamaConfig(
        **shape,
        head_dim=HEAD_SIZE,
        intermediate_size=2 * shape["hidden_size"],
        vocab_size=VOCABULARY,
        max_position_embeddings=8192,
        rope_parameters={"rope_type": "default", "rope_theta": 1e7},  # most of a head knows no distance
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
    )
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        set_weights(model, torch.Generator().manual_seed(seed))
    return model


def set_weights(model: Any, generator: torch.Generator) -> None:
    def fill(layer: Any, size: float) -> None:
        layer.weight.normal_(std=size / math.sqrt(layer.weight.shape[-1]), generator=generator)

    model.model.embed_tokens.weight.normal_(generator=generator)
    fill(model.lm_head, LOGITS)
    for layer in model.model.layers:
        attention, rest = layer.self_attn, layer.mlp
        fill(attention.q_proj, math.sqrt(SHARPNESS))
        attention.k_proj.weight.copy_(first_of_each_group(attention.q_proj.weight, attention.num_key_value_groups))
        for projection in (attention.v_proj, attention.o_proj, rest.gate_proj, rest.up_proj, rest.down_proj):
            fill(projection, 1.0)


def first_of_each_group(weight: torch.Tensor, group: int) -> torch.Tensor:
    """The rows of every head whose keys are its own."""
    return weight.view(-1, group, HEAD_SIZE, weight.shape[-1])[:, 0].reshape(-1, weight.shape[-1])


def sample_texts(model: Any, texts: int, length: int, seed: int) -> list[list[int]]:
    """What the model says when it is let: all texts at the same time, token by token."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(VOCABULARY, (texts, 1), generator=generator)
    found, cache = [tokens], None
    with torch.inference_mode():
        while len(found) < length:
            answer = model(found[-1], past_key_values=cache, use_cache=True)
            cache = answer.past_key_values
            chances = torch.softmax(answer.logits[:, -1].double(), dim=-1)
            found.append(torch.multinomial(chances, 1, generator=generator))
    rows: list[list[int]] = torch.cat(found, dim=1).tolist()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--texts", type=int, default=8, help="how many texts of each model")
    parser.add_argument("--length", type=int, default=256, help="tokens of each text")
    options = parser.parse_args()
    disable_progress_bar()
    for number, (name, shape) in enumerate(SHAPES.items()):
        model = make_model(shape, options.seed + number)
        folder = options.out / name
        model.save_pretrained(folder)
        texts = sample_texts(model, options.texts, options.length, options.seed)
        (folder / "texts.json").write_text(json.dumps(texts))
        print(f"{name}: {sum(weight.numel() for weight in model.parameters()):,} weights, in {folder}")


if __name__ == "__main__":
    main()
