"""What a user asked `icgd run` for, checked before anything heavy is imported."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from icgd.base.construction import Construction, by_method, constructions, methods
from icgd.base.numbers import whole_number
from icgd.errors import FaultyPlugin, InvalidFile, InvalidParameter

DTYPES = ("float64", "float32")
EXECUTORS = ("structured", "dense", "sparse")
TEMPERATURES = ("spectral", "hard")
ACTIVATIONS = ("relu", "tanh", "sigmoid", "softplus", "gelu")
MODELS = ("network", "linear", "ridge", "lasso", "logistic", "poisson")
EXAMPLES = ("diabetes", "breast_cancer")
PAPERS = ("COT", "DEEP", "BRIDGE", "ALGO", "LSA")
OPTIMIZERS = ("gd", "newton", "preconditioned")
OF_NETWORKS = ("widths", "seed", "output", "method")
OF_METHODS = (
    *("epochs", "steps", "activation", "box"),
    *("temperature", "n_grid", "rho", "radius", "n_relu", "attention", "signal_radius"),
)
"""Options that only some methods take: descriptions of constructions say which."""
OF_LINEAR_MODELS = ("lam",)
OF_BOTH = ("steps", "temperature", "n_grid", "rho", "radius")
"""Options of methods that linear models have too."""


def taken(known: Construction) -> set[str]:
    """The options of `icgd run` that a method of training networks takes, out of those that not all of them do.

    >>> sorted(taken(by_method("stack")))
    ['activation', 'box', 'n_relu', 'radius', 'signal_radius', 'steps']
    """
    return {known.rounds, *known.settings, *known.option_names()} & set(OF_METHODS)


def _takes(known: Construction, name: str) -> bool:
    """Whether a method has that option; one that cannot be loaded has none to recommend."""
    try:
        return name in taken(known)
    except FaultyPlugin:
        return False


def check_targets(data: Path, targets: tuple[str, ...]) -> None:
    """Refuse targets that the first line of a table does not name, before anything heavy is loaded.

    A compressed table, and one whose header is odd, is refused when it is read.
    """
    if not data.is_file():
        return
    with data.open(encoding="utf-8", errors="replace", newline="") as opened:
        header = next(csv.reader([opened.readline(100_000)], skipinitialspace=True), [])
    if not header or not all(name.isprintable() for name in header):
        return
    if targets and (len(header) < 2 or len(set(header)) < len(header) or not all(header)):
        return
    chosen_targets(targets, header, str(data))


def chosen_targets(wanted: Sequence[str], columns: Sequence[str], source: str) -> list[str]:
    """Target names from repeated or comma-separated options, each an existing column."""
    names: list[str] = []
    for text in wanted:
        # A column whose own name has a comma in it is taken whole.
        parts = [text] if text in columns else [part.strip() for part in text.split(",")]
        names += [part for part in parts if part]
    if not names:
        raise InvalidParameter(
            "--target", list(wanted), f"name a column of {source}", remedy=_choice(columns)
        )
    for name in names:
        if name not in columns:
            raise InvalidParameter(
                "--target", name, f"be a column of {source}", remedy=_choice(columns)
            )
    if len(set(names)) != len(names):
        raise InvalidParameter("--target", names, "name every column once")
    if len(names) == len(columns):
        raise InvalidParameter(
            "--target",
            names,
            "leave at least one column as a feature",
            remedy="Add a feature column or name fewer targets.",
        )
    return names


def _choice(columns: Sequence[str]) -> str:
    shown = ", ".join(map(str, columns[:12]))
    return f"Its columns are: {shown}{', ...' if len(columns) > 12 else ''}."


@dataclass(frozen=True)
class Settings:
    """Options of one run; `None` means the compiler's own default for the precision."""

    out: Path
    data: Path | None = None
    example: str | None = None
    target: tuple[str, ...] = ()
    model: str = "network"
    lam: float = 0.1
    steps: int | None = None
    optimizer: str = "gd"
    method: str = "cot"
    activation: str = "relu"
    attention: str | None = None
    n_relu: int | None = None
    box: float | None = None
    signal_radius: float | None = None
    widths: str = "16,16"
    lr: float | None = None
    epochs: int = 3
    standardize: bool = True
    seed: int = 0
    output: str = "linear"
    bias: bool = True
    temperature: str = "spectral"
    n_grid: int | None = None
    rho: float | None = None
    radius: float | None = None
    dtype: str = "float64"
    executor: str = "structured"
    trace: bool = False
    trace_budget: float | None = None

    def check(self) -> None:
        """Refuse what can never work."""
        if (self.data is None) == (self.example is None):
            raise InvalidParameter(
                "DATA",
                None if self.data is None else str(self.data),
                "be given, or --example, but not both",
                remedy="Try: icgd run --example diabetes",
            )
        if self.example is not None and self.example not in EXAMPLES:
            raise InvalidParameter("--example", self.example, f"be one of {', '.join(EXAMPLES)}")
        if self.data is not None and not self.data.exists():
            raise InvalidFile(
                f"No file {self.data}. Pass a CSV file with a header, or use --example diabetes."
            )
        if self.data is not None:
            check_targets(self.data, self.target)
        choices = {
            "model": MODELS,
            "dtype": DTYPES,
            "executor": EXECUTORS,
            "temperature": TEMPERATURES,
            "method": methods(),
            "optimizer": OPTIMIZERS,
            "activation": ACTIVATIONS,
            "output": ("linear", self.activation),
        }
        for name, allowed in choices.items():
            value = getattr(self, name)
            if value not in allowed:
                raise InvalidParameter(f"--{name}", value, f"be one of {', '.join(allowed)}")
        self._check_kind()
        if self.lr is not None and not (math.isfinite(self.lr) and self.lr > 0):
            raise InvalidParameter(
                "--lr", self.lr, "be a finite number > 0", remedy="Try the default, --lr 0.01."
            )
        if self.epochs < 1:
            raise InvalidParameter(
                "--epochs", self.epochs, "be an integer >= 1", remedy="Try --epochs 1."
            )
        whole_number("--epochs", self.epochs)
        if not 0 <= self.seed < 2**63:
            raise InvalidParameter("--seed", self.seed, "be an integer from 0 to 2^63 - 1")
        hidden_widths(self.widths)
        if self.trace_budget is not None:
            if not self.trace:
                raise InvalidParameter(
                    "--trace-budget", self.trace_budget, "be left out without --trace"
                )
            if not (math.isfinite(self.trace_budget) and self.trace_budget > 0):
                raise InvalidParameter(
                    "--trace-budget", self.trace_budget, "be a finite number > 0, in megabytes"
                )

    def check_compiled(self, shuffle: int | None) -> None:
        """The same with --program: model and optimizer are compiled, so their options have no meaning."""
        kept = ("out", "data", "target", "epochs", "executor")
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in kept and value != field.default:
                option = f"--{field.name.replace('_', '-')}"
                raise InvalidParameter(option, value, "be left out with --program")
        if self.epochs < 1:
            raise InvalidParameter("--epochs", self.epochs, "be an integer >= 1")
        if self.executor not in ("structured", "dense"):
            raise InvalidParameter("--executor", self.executor, "be structured or dense")
        if shuffle is not None and not 0 <= shuffle < 2**63:
            raise InvalidParameter("--shuffle", shuffle, "be an integer from 0 to 2^63 - 1")
        if self.data is not None and self.target:
            check_targets(self.data, self.target)

    def _check_kind(self) -> None:
        """An option that would be ignored is a mistake."""
        network = self.model == "network"
        known = by_method(self.method)
        ignored = {*OF_NETWORKS, *OF_METHODS} - set(OF_BOTH)
        if network:
            ignored = {*OF_METHODS, *OF_LINEAR_MODELS} - taken(known)
        shown = f"--method {self.method}" if network else f"--model {self.model}"
        for field in fields(self):
            name, value = field.name, getattr(self, field.name)
            if name in ignored and value != field.default:
                option = name.replace("_", "-")
                raise InvalidParameter(
                    f"--{option}",
                    value,
                    f"be left out with {shown}",
                    remedy=self._where_it_belongs(name, option),
                )
        executors = known.executors if network else Construction.executors
        if self.executor not in executors and self.model != "linear":
            raise InvalidParameter(
                "--executor", self.executor, f"be {' or '.join(executors)} with {shown}"
            )
        if self.model != "linear" and self.optimizer != "gd":
            raise InvalidParameter(
                "--optimizer",
                self.optimizer,
                f"be left out with --model {self.model}",
                remedy="Newton's method is for --model linear.",
            )
        if self.model == "linear":
            for name in ("lam", "temperature", "n_grid", "rho", "radius"):
                if getattr(self, name) != type(self).__dataclass_fields__[name].default:
                    raise InvalidParameter(
                        f"--{name.replace('_', '-')}",
                        getattr(self, name),
                        "be left out with --model linear",
                    )
        if not (math.isfinite(self.lam) and self.lam >= 0):
            raise InvalidParameter("--lam", self.lam, "be a finite number >= 0")
        if self.steps is not None:
            whole_number("--steps", self.steps)

    def _where_it_belongs(self, name: str, option: str) -> str:
        """The methods that take an option of networks, as a command to write."""
        every = [c for c in constructions().values() if c.method is not None and _takes(c, name)]
        if self.model != "network" or not every:
            return ""
        value = getattr(self, name)
        shown = " or ".join(f"--method {c.method}" for c in every)
        return f"Write --{option} {value} with {shown}."

    def command(self) -> list[str]:
        """The words of `icgd run` that ask for this again, to another directory than the run's own.

        >>> Settings(Path("out"), example="diabetes", seed=3, bias=False).command()
        ['icgd', 'run', '--example', 'diabetes', '--seed', '3', '--no-bias']
        """
        words = ["icgd", "run", *([] if self.data is None else [str(self.data)])]
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("out", "data") or value == field.default:
                continue
            option = field.name.replace("_", "-")
            if isinstance(value, bool):
                words.append(f"--{option}" if value else f"--no-{option}")
                continue
            for one in value if isinstance(value, tuple) else (value,):
                words += [f"--{option}", one if isinstance(one, str) else repr(one)]
        return words


def hidden_widths(text: str) -> tuple[int, ...]:
    """Hidden widths from "16,16"; "none" is a network without hidden layer.

    >>> hidden_widths("16, 8"), hidden_widths("none")
    ((16, 8), ())
    """
    if text.strip().lower() == "none":
        return ()
    try:
        widths = tuple(int(part) for part in text.split(","))
    except ValueError:
        widths = (0,)
    if min(widths) < 1:
        raise InvalidParameter(
            "--widths",
            text,
            "be integers >= 1 separated by commas",
            remedy="For example --widths 16,16, or --widths none for no hidden layer.",
        )
    return widths
