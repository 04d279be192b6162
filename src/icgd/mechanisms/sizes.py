"""What compiling costs, construction by construction, from a config alone.

Asked before anything is built (`Blueprint.check`). Bytes are the most that are in use at once while a program
is built, not the size of the finished one: matrices are made, laid out by columns and copied. The factors are
those of the code that builds them, measured; tests/mechanisms/test_sizes.py holds every one of them against
measurement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from icgd.base.preflight import Part

Config = Mapping[str, Any]

NUMBER = {"float64": 8, "float32": 4}
TOKEN = 100.0
"""Bytes of a grid token: two Python floats in lists, and its tensors."""
WRITING = 2.5e-9
"""Seconds per byte of a matrix that is made, sorted and copied."""
HEADS = {"spectral": 1, "sym": 2, "printed": 2, "four": 4}
"""Copies of the matrices of a product, by its mode."""
FIT_NODES = 3000
"""Points on which functions of two variables are fitted."""


def _count(value: object) -> int:
    """A size as it is; 0 for what is none, which the builder will say."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _counts(values: Config, *names: str) -> list[int]:
    return [_count(values.get(name, 1)) for name in names]


def _bits(n: int) -> int:
    """Entries of a binary code of n positions."""
    return max(1, n.bit_length())


def _matrix(name: str, value: object, entries: float) -> Part:
    """Matrices of so many entries in double precision."""
    return Part(name, value, 8 * entries, 8 * entries * WRITING)


def _grid(config: Config) -> Part:
    n = _count(config["options"].get("n_grid"))
    return Part("n_grid", n, TOKEN * n, 4e-7 * n)


# -- one layer and a chain of thought --------------------------------------------------------------


def softmax_cot_network(config: Config) -> list[Part]:
    """Gates of d^2 weights in four kinds of steps, on both sides of the heads."""
    widths = config["problem"]["widths"]
    square, layers = max(map(_count, widths)) ** 2, len(widths)
    return [
        Part(
            "widths",
            widths,
            38 * square * NUMBER[config["dtype"]] + 40 * layers,
            3.2e-7 * square + 1e-6 * layers,
        ),
        _grid(config),
    ]


def softmax_cot_statistics(config: Config) -> list[Part]:
    """Vectors of features, and the tokens of the heads; a fitted head solves for its tokens' values."""
    problem, o = config["problem"], config["options"]
    d, p = _count(problem["n_features"]), _count(o["n_grid"])
    number = NUMBER[config["dtype"]]
    features = Part("n_features", d, 17 * d * number, 1.6e-7 * d)
    plain = o["temperature"] == "hard" or problem["loss"] == "squared"
    native = o["native"] and problem["loss"] in ("logistic", "poisson")
    if problem["form"] == "joint":
        head = Part("n_grid", p, 1100 * p**2, 4.6e-8 * p**3 * (o["temperature"] != "hard"))
    elif plain or native:
        head = _grid(config)
    else:
        head = Part("n_grid", p, 260 * p**2, 2.5e-9 * p**3 + 1e-3 * p)
    return [features, head]


# -- stacks ----------------------------------------------------------------------------------------


def _loss_parts(config: Config) -> list[Part]:
    """The layer of the loss, which all stacks have: units are Python numbers at first."""
    problem, o = config["problem"], config["options"]
    n, widths = _count(o["n_relu"]), [_count(w) for w in problem["widths"]]
    parts = []
    loss = str(problem["loss"])
    if loss == "squared" or loss.startswith("huber["):
        units = 3
    else:
        units = n
        parts.append(_relu_sum(n, fits=1))
    cells = widths[-1] * units
    parts.append(Part("widths", problem["widths"], 640 * cells, 1.6e-5 * cells))
    return parts


def _relu_sum(n: int, fits: int) -> Part:
    """A sum of n ReLUs is certified at 17 n points, each a sum over all units."""
    return Part("n_relu", n, 3500 * n, fits * 17 * n**2 * 4e-9)


def _least_squares(n: int) -> Part:
    """Many fits of n units at thousands of points, the error of each looked at on a finer grid."""
    return Part("n_relu", n, 1e8 + 2.6e5 * n, 5e-3 * n + 3.8e-6 * n * min(n, FIT_NODES))


def _n_weights(widths: Sequence[int]) -> int:
    return sum(a * (b + 1) for a, b in zip(widths[1:], widths, strict=False))


def relu_stack(config: Config) -> list[Part]:
    """Index arrays over all weights, and sublayers that are objects."""
    problem, o = config["problem"], config["options"]
    widths = [_count(w) for w in problem["widths"]]
    n, layers, weights = _count(o["n_relu"]), len(widths) - 1, _n_weights(widths)
    boxed = config["optimizer"]["box"] is not None
    parts = _loss_parts(config)
    parts.append(
        Part(
            "widths",
            problem["widths"],
            9e4 * layers + (125 + 195 * boxed) * weights,
            6e-3 * layers + 4e-7 * weights,
        )
    )
    if problem["activation"] != "relu":
        parts.append(_relu_sum(n, fits=2))
        if o["products"] == "attention":
            units = 2 * n * sum(widths[1:])
            parts.append(Part("n_relu", n, 110 * units, 1.5e-7 * units))
    return parts


def forward_mode(config: Config) -> list[Part]:
    """One unit per hidden unit and weight before it, which writes to every unit behind."""
    problem, o = config["problem"], config["options"]
    widths = [_count(w) for w in problem["widths"]]
    layers, n = len(widths) - 1, _count(o["n_relu"])
    units = entries = older = 0
    for p in range(1, layers):
        own = widths[p] * (widths[p - 1] + 1)
        each = own if layers > 2 else widths[p] * widths[p + 1]
        each += widths[p] * older
        units += each
        entries += each * (widths[p + 1] if layers > 2 else 2 * (widths[p - 1] + 1))
        older += own
    parts = _loss_parts(config)
    parts.append(
        Part(
            "widths",
            problem["widths"],
            9e4 * layers + 340 * units + 24 * entries + 130 * _n_weights(widths),
            1.1e-2 * layers + 1.1e-5 * units * (layers > 2) + 1e-7 * entries,
        )
    )
    act, heads = problem["activation"], o["attention"]
    closed = {act, heads} <= {"tanh", "sigmoid"} or act == "relu"
    if not closed:
        parts.append(_least_squares(n))
    return parts


# -- loops -----------------------------------------------------------------------------------------


def _examples(name: str, n: int) -> Part:
    """Binary codes of n positions."""
    return Part(name, n, 24 * n * _bits(n), 7e-7 * n)


def _positions(name: str, value: object, n: int) -> Part:
    """Rotary codes of n positions, the best of 50 draws."""
    return Part(name, value, 160 * n * _bits(n), 2.5e-6 * n * _bits(n))


def _mode(config: Config) -> int:
    return HEADS.get(str(config["options"].get("mode")), 1)


def looped_regression(config: Config) -> list[Part]:
    """Rows as wide as a token for features and outputs, in the layers before, in and after the loop."""
    p = config["problem"]
    d, n, outputs = _counts(p, "n_features", "n_examples", "n_outputs")
    rows = [len(W) for W, _ in p["representation"]]
    wide, last = max([d, *rows]), (rows or [d])[-1]
    width = wide + last + (3 if p["lam"] else 2) * outputs + _bits(n) + 4
    copies = 8 + 5.5 * _mode(config)
    ridge = 1.4 if p["lam"] else 1.0
    return [
        _matrix("n_features", d, copies * max(wide, last) * width),
        _matrix("representation", f"{len(rows)} layers", 10 * sum(rows) * width),
        _matrix("n_outputs", outputs, copies * ridge * outputs * width),
        _examples("n_examples", n),
        _grid(config),
    ]


def _newton_width(p: Config) -> int:
    d, n, outputs = _counts(p, "n_features", "n_examples", "n_outputs")
    return 3 * d + 4 * outputs + _bits(n) + 4


def looped_newton(config: Config) -> list[Part]:
    """As a regression, with a product that writes as many entries as it reads."""
    p, width = config["problem"], _newton_width(config["problem"])
    d, n, outputs = _counts(p, "n_features", "n_examples", "n_outputs")
    return [
        _matrix("n_features", d, (6 + 20 * _mode(config)) * d * width),
        _matrix("n_outputs", outputs, (4 + 3 * _mode(config)) * outputs * width),
        _examples("n_examples", n),
        _grid(config),
    ]


def looped_preconditioned(config: Config) -> list[Part]:
    """Newton's layers, once more for every step of the iteration."""
    steps, p = _count(config["optimizer"]["newton_steps"]), config["problem"]
    d, width = _count(p["n_features"]), _newton_width(config["problem"])
    entries, grid = 9 * _mode(config) * d * width, _grid(config)
    each = Part(
        "newton_steps",
        steps,
        steps * (28e3 + 8 * entries + 0.6 * grid.bytes),
        steps * (2.2e-3 + 8 * entries * WRITING + grid.seconds),
    )
    return [*looped_newton(config), each]


def looped_decoder(config: Config) -> list[Part]:
    """Every output has weights, a gradient and heads of its own."""
    p = config["problem"]
    d, n, outputs = _counts(p, "n_features", "n_examples", "n_outputs")
    width = d * (2 + 2 * outputs) + 2 * outputs + _bits(n) + 5
    return [
        _matrix("n_features", d, 12 * d * width),
        _matrix("n_outputs", outputs, 2 * outputs * (6 * d + 2 * _bits(n) + 6) * width),
        _examples("n_examples", n),
        _grid(config),
    ]


def looped_autoregression(config: Config) -> list[Part]:
    """A head that reads the token so many places back for every lag."""
    p = config["problem"]
    d, order, n = _counts(p, "n_features", "order", "n_steps")
    rows, code = [len(W) for W, _ in p["representation"]], 4 * _bits(n)
    window = order * d
    wide, last = max(rows or [window]), (rows or [window])[-1]
    width = window + wide + last + 2 * d + code + order + 4
    return [
        _matrix("n_features", d, (12 + 7 * _mode(config)) * max(wide, last, d) * width),
        _matrix("representation", f"{len(rows)} layers", 10 * sum(rows) * width),
        _matrix("order", order, order * (15 * code + 6 * d) * width),
        _positions("n_steps", n, n),
        _grid(config),
    ]


def looped_chain(config: Config) -> list[Part]:
    """States of all phases; a gate compares the phases one by one."""
    p = config["problem"]
    d, layers, chains = _counts(p, "n_features", "n_layers", "n_chains")
    tokens = (layers + 1) * (chains + 1)
    width = 6 * d + 2 * (layers + 1) + 4 * _bits(tokens) + 4
    phases = _matrix("n_layers", layers, 5 * (layers + 1) * width)
    return [
        _matrix("n_features", d, (16 + 8 * _mode(config)) * d * width),
        Part(phases.name, layers, phases.bytes, phases.seconds + 1e-3 * layers),
        _positions("n_chains" if chains > layers else "n_layers", max(chains, layers), tokens),
        _grid(config),
    ]


def linear_attention_cot(config: Config) -> list[Part]:
    """Literal square matrices."""
    d = _count(config["problem"]["n_features"])
    entries = 9.5 * (2 * d + 2) ** 2
    return [Part("n_features", d, NUMBER[config["dtype"]] * entries, 9e-9 * entries)]
