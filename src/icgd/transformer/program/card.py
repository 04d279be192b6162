"""The model card of a saved program: what it trains, how, what it promises, and how to run it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from huggingface_hub import ModelCard, ModelCardData

from icgd import __version__
from icgd.problems import Network

if TYPE_CHECKING:
    from icgd.transformer.program.program import Program


@dataclass(frozen=True)
class CardText:
    """What a construction says of its program: facts by name, and lines of code that run it."""

    facts: Mapping[str, str]
    use: Sequence[str]


def card_of(program: Program) -> ModelCard:
    """README.md of a saved program."""
    config, c = program.config, program.certificate
    name, statement = program.construction.name, program.construction.statement
    data = ModelCardData(library_name="icgd", tags=["in-context-learning"])
    weights = sum(value.numel() for value in program.state_dict().values())
    domain = f" for |s| <= {c.domain:g}" if math.isfinite(c.domain) else ""
    source = f", after {statement}" if statement else ""
    text = _text(program)
    lines = [
        f"# {name}",
        "",
        "A frozen transformer with explicit weights. It was compiled by "
        f"[icgd](https://pypi.org/project/icgd/) {__version__}, not trained: running it trains the model below "
        "inside its own context.",
        "",
        *(f"- **{fact}**: {value}" for fact, value in text.facts.items()),
        f"- **Construction**: {name}, {program.construction.summary}{source}",
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
        *text.use,
        "```",
        "",
        "`icgd verify --program DIR data.csv --target y` checks it on a table, against exact optimizers.",
    ]
    return ModelCard(f"---\n{data.to_yaml()}\n---\n\n" + "\n".join(lines) + "\n")


def _text(program: Program) -> CardText:
    if program.construction.card is not None:
        text: CardText = program.construction.apply("card", program)
        return text
    config = program.config
    facts = {"Problem": _listed(config["problem"]), "Optimizer": _listed(config["optimizer"])}
    return CardText(facts, _example(program))


def _listed(values: Mapping[str, Any]) -> str:
    """Names and values in a line; long lists are counted."""

    def shown(value: Any) -> str:
        text = str(value)
        return text if len(text) <= 60 else f"{type(value).__name__} of {len(value)}"

    return ", ".join(f"{key} {shown(v)}" for key, v in values.items() if v is not None) or "none"


def _example(program: Program) -> list[str]:
    """How it is run: SGD makes epochs, everything else steps; a network begins with weights of its own."""
    rounds = {"epochs": "epochs=1", "steps": "steps=100"}[program.construction.rounds]
    if program.construction.call:
        return [line.format(rounds=rounds) for line in program.construction.call]
    problem = program.problem
    if not isinstance(problem, Network):
        return [f"run = program.run(X, Y, {rounds})", "run.weights"]
    known = {key: getattr(problem.spec, key) for key in ("activation", "output", "bias")}
    options = ", ".join(f"{key}={value!r}" for key, value in known.items())
    return [
        f"network = icgd.Network({problem.widths}, {options})",
        f"run = program.run(X, Y, init=network.init(seed=0), {rounds})",
        "run.weights",
    ]
