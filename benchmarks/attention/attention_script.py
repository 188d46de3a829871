"""What the scripts of the attention suite share: options, the model, and the three files they leave."""

from __future__ import annotations

import argparse
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from attention_patterns import Pattern, use
from transformers import AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar

Metrics = dict[str, Any]
Measure = Callable[[Any, Pattern, argparse.Namespace], Metrics]
PATTERN = ("sinks", "window", "top")


def run(measure: Measure, parser: argparse.ArgumentParser) -> None:
    """Reads the command line, measures, writes params.json, metrics.json and tasks.pkl."""
    add_options(parser)
    options = parser.parse_args()
    device = "cuda" if options.device == "auto" and torch.cuda.is_available() else options.device
    options.device = "cpu" if device == "auto" else device
    torch.manual_seed(options.seed)
    pattern = Pattern(options.sinks, options.window, options.top)
    with torch.inference_mode():
        model = load(options.model, options.device)
        use(model, pattern)
        metrics = measure(model, pattern, options)
    metrics |= {"is_success": True, "keys_per_query": pattern.keys_per_query(options.context)}
    write_results(options, metrics)
    print(json.dumps(metrics, indent=2))


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", type=Path, required=True, help="a folder as transformers saves a model")
    parser.add_argument("--context", type=int, required=True, help="how many tokens")
    for name in PATTERN:
        parser.add_argument(f"--{name}", type=int, default=0, help=f"see Pattern.{name}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="auto", help="auto: the GPU where there is one")
    parser.add_argument("--benchmark-results-path", type=Path, required=True)


def load(folder: Path, device: str) -> Any:
    disable_progress_bar()
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    return model.eval().to(device)


def read_texts(folder: Path, context: int, device: str) -> torch.Tensor:
    """The first tokens of the texts that stand beside a model."""
    texts = torch.tensor(json.loads((folder / "texts.json").read_text()), device=device)
    if texts.shape[1] < context:
        raise SystemExit(f"--context: found {context}, but the texts of {folder} have {texts.shape[1]} tokens")
    return texts[:, :context]


def write_results(options: argparse.Namespace, metrics: Metrics) -> None:
    folder = options.benchmark_results_path
    params = {name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items()}
    versions = {"torch": torch.__version__, "threads": torch.get_num_threads(), "cpus": os.cpu_count()}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "params.json").write_text(json.dumps(params | versions, indent=2))
    (folder / "metrics.json").write_text(json.dumps(metrics, indent=2))
    (folder / "tasks.pkl").write_bytes(pickle.dumps([]))
