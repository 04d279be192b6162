"""The model card of a saved program: what it trains, how, what it promises, and how to run it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from huggingface_hub import ModelCard, ModelCardData

from icgd import __version__

if TYPE_CHECKING:
    from icgd.transformer.program.program import Program

CONSTRUCTIONS = {
    "softmax_cot_network": ("one softmax layer and a chain of thought", "[COT] Proposition 4.4"),
    "softmax_cot_statistics": ("one softmax layer and a chain of thought", "[COT] Theorem 3.1"),
    "relu_stack": ("a stack of ReLU attention layers that backpropagates", "[DEEP] Theorem 1"),
    "forward_mode": ("N layers a step that carry derivatives forward", "[BRIDGE] Theorem 2"),
    "looped_regression": ("a looped transformer", "[ALGO] Theorem 3.1"),
    "looped_autoregression": ("a looped transformer", "[ALGO] Theorem 3.2"),
    "looped_chain": ("a looped transformer", "[ALGO] Theorem 3.3"),
    "looped_newton": ("a looped transformer", "[ALGO] Theorem 4.1"),
    "looped_preconditioned": (
        "Newton's iteration, then a looped transformer",
        "[ALGO] Theorem 4.1",
    ),
    "looped_decoder": ("a looped decoder that trains on every prefix", "[ALGO] Theorem 4.2"),
    "fused_loop": ("one layer for entry, loop and answer", "[ALGO] Section 2.2"),
    "linear_attention_cot": (
        "linear attention that appends a weight vector a step",
        "[LSA] Theorem 3.2",
    ),
}
"""In a few words, and the statement a construction comes from."""


def card_of(program: Program) -> ModelCard:
    """README.md of a saved program."""
    config, c = program.config, program.certificate
    name = str(config["construction"])
    words, statement = CONSTRUCTIONS.get(name, ("a construction registered from outside", ""))
    data = ModelCardData(library_name="icgd", tags=["in-context-learning"])
    weights = sum(value.numel() for value in program.state_dict().values())
    domain = f" for |s| <= {c.domain:g}" if math.isfinite(c.domain) else ""
    source = f", after {statement}" if statement else ""
    lines = [
        f"# {name}",
        "",
        "A frozen transformer with explicit weights. It was compiled by "
        f"[icgd](https://pypi.org/project/icgd/) {__version__}, not trained: running it trains the model below "
        "inside its own context.",
        "",
        f"- **Problem**: {_listed(config['problem'])}",
        f"- **Optimizer**: {_listed(config['optimizer'])}",
        f"- **Construction**: {name}, {words}{source}",
        f"- **Options**: {_listed(config['options'])}; {config['dtype']}",
        f"- **Certificate**: {c.name}, error at most {c.sup_error:.3g}{domain}"
        + ("" if c.rigorous else " (measured on a grid, not proved)"),
        f"- **Stored weights**: {weights:,}",
        "",
        "## Use",
        "",
        "```python",
        "import icgd",
        "",
        'program = icgd.Program.from_pretrained("path/to/this/directory")',
        *_example(config),
        "```",
        "",
        "`icgd verify --program DIR data.csv --target y` checks it on a table, against exact optimizers.",
    ]
    return ModelCard(f"---\n{data.to_yaml()}\n---\n\n" + "\n".join(lines) + "\n")


def _listed(values: Mapping[str, Any]) -> str:
    """Names and values in a line; long lists are counted."""

    def shown(value: Any) -> str:
        text = str(value)
        return text if len(text) <= 60 else f"{type(value).__name__} of {len(value)}"

    return ", ".join(f"{key} {shown(v)}" for key, v in values.items() if v is not None)


def _example(config: Mapping[str, Any]) -> list[str]:
    """How it is run: SGD makes epochs, everything else steps; a network begins with weights of its own."""
    problem = config["problem"]
    how = "epochs=1" if config["optimizer"].get("name") == "SGD" else "steps=100"
    if config["construction"] == "looped_autoregression":
        return [f"run = program.run(series, None, {how})", "run.prediction"]
    if config["construction"] == "looped_chain":
        return [f"run = program.run(chains, None, {how}, query=start)", "run.prediction"]
    if "widths" not in problem:
        return [f"run = program.run(X, Y, {how})", "run.weights"]
    known = {key: problem[key] for key in ("activation", "output", "bias")}
    options = ", ".join(f"{key}={value!r}" for key, value in known.items())
    return [
        f"network = icgd.Network({tuple(problem['widths'])}, {options})",
        f"run = program.run(X, Y, init=network.init(seed=0), {how})",
        "run.weights",
    ]
