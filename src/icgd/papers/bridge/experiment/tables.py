"""Tables and figure of bridge-resources, and what its rows are called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from icgd.lab.experiments.drawing import curve, panels, title
from icgd.lab.experiments.experiment import ResultTable, Row, Rows
from icgd.lab.experiments.over_seeds import distinct, select, spread
from icgd.papers.bridge.experiment.depth import AS_EXACT, BALL, FOLDED, SHALLOW, SMOOTH

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TRAINED, WRITTEN, SQUARE, NAIVE = "trained", "written ball", "square", "naive"
SHALLOW_LAYERS = 1
DEEP_LAYERS = {BALL: 2, SMOOTH: 3}
"""Hidden layers of the networks that are called deep: Theorem 3 is about three layers."""
NAMES = {BALL: "the ball", SMOOTH: "a smooth function"}
CONSTRUCTIONS = {"forward_mode": "BRIDGE", "stack": "DEEP", "cot": "COT"}
OWN = "forward_mode"


def trained_rows(rows: Rows, target: str, layers: int, units: int) -> list[Row]:
    """Trained networks of one shape, one for each seed."""
    return select(rows, what=TRAINED, target=target, layers=layers, units=units)


def trained_errors(rows: Rows, target: str, layers: int, units: int) -> list[float]:
    """Squared errors, one for each seed."""
    return [row["error"][target][0] for row in trained_rows(rows, target, layers, units)]


def matrices(row: Row, method: str) -> int:
    """Of a transformer that trains a network in context."""
    return int(row["resources"][method]["matrices"])


def depth_tables(rows: Rows) -> list[ResultTable]:
    """Errors beside counts."""
    return [
        *(_trained_table(rows, target) for target in DEEP_LAYERS),
        _balls(rows),
        _squares(rows),
    ]


def depth_figure(rows: Rows) -> Figure:
    """Errors against units above, against matrices below."""
    figure, axes = panels(2, 3, width=3.0, sharey=False)
    for row, against in zip(axes, ("units", "matrices"), strict=True):
        for axis, target in zip(row, DEEP_LAYERS, strict=False):
            _draw_trained(axis, rows, target, against)
        _draw_square(row[-1], select(rows, what=SQUARE), against)
    return figure


# -- tables ----------------------------------------------------------------------------------------------


def _trained_table(rows: Rows, target: str) -> ResultTable:
    lines: list[tuple[str, ...]] = []
    its = select(rows, what=TRAINED, target=target)
    for units in distinct(its, "units"):
        for layers in distinct(its, "layers"):
            trained = trained_rows(rows, target, layers, units)
            counts = trained[0]["resources"]
            lines.append(
                (
                    f"{units}",
                    "-".join(map(str, trained[0]["widths"])),
                    spread(trained_errors(rows, target, layers, units)),
                    *(
                        f"{counts[m]['layers']}, {counts[m]['heads']:,}, {counts[m]['matrices']:,}"
                        for m in CONSTRUCTIONS
                    ),
                )
            )
    naive = [row["naive"][target] for row in select(rows, what=NAIVE)]
    lines += [
        (
            "-",
            f"naive: {name}",
            spread([guess[name] for guess in naive]),
            *["-"] * len(CONSTRUCTIONS),
        )
        for name in naive[0]
    ]
    return ResultTable(
        f"Trained on {NAMES[target]}: squared error, and layers, heads, matrices of a step in context",
        ("Units", "Network", "Squared error", *(f"{p}'s" for p in CONSTRUCTIONS.values())),
        tuple(lines),
    )


def _balls(rows: Rows) -> ResultTable:
    balls = select(rows, what=WRITTEN)
    lines = []
    for d, counts in balls[0]["resources"].items():
        for i, count in enumerate(counts):
            errors = [row["error"][d][i] for row in balls]
            network = "-".join(map(str, count["widths"]))
            lines.append(
                (
                    d,
                    f"{balls[0]['deltas'][i]}",
                    network,
                    spread(errors),
                    f"{count['heads']:,}",
                    f"{count['matrices']:,}",
                )
            )
    return ResultTable(
        "Three layers written down for the ball within delta (of the first seed), and heads and matrices of "
        "BRIDGE's construction",
        ("Dimension", "Delta", "Network", "Squared error", "Heads", "Matrices"),
        tuple(lines),
    )


def _squares(rows: Rows) -> ResultTable:
    squares = select(rows, what=SQUARE)
    lines = []
    for i, m in enumerate(squares[0]["folds"]):
        errors, units, matrices = (
            {name: [row[key][name][i] for row in squares] for name in (FOLDED, SHALLOW, AS_EXACT)}
            for key in ("error", "units_of", "matrices_of")
        )
        lines.append(
            (
                f"{m}",
                f"{units[FOLDED][0]}",
                spread(errors[FOLDED]),
                spread(errors[SHALLOW]),
                f"{matrices[FOLDED][0]:,}",
                f"{units[AS_EXACT][0]:,}",
                f"{matrices[AS_EXACT][0]:,}",
            )
        )
    return ResultTable(
        "x^2: largest error, folded m times and by one hidden layer of as many units; matrices of BRIDGE's "
        "construction, and units and matrices of the hidden layer that is as exact",
        (
            "m",
            "Units",
            "Folded",
            "One hidden layer",
            "Matrices, folded",
            "Units, as exact",
            "Matrices, as exact",
        ),
        tuple(lines),
    )


# -- figure ----------------------------------------------------------------------------------------------


def _draw_trained(axis: Axes, rows: Rows, target: str, against: str) -> None:
    its = select(rows, what=TRAINED, target=target)
    units, seeds = distinct(its, "units"), distinct(its, "seed")
    methods = list(CONSTRUCTIONS) if against == "matrices" else [OWN]
    for style, method in enumerate(methods):
        for colour, layers in enumerate((SHALLOW_LAYERS, DEEP_LAYERS[target])):
            errors = [
                [
                    trained_rows(select(its, seed=s), target, layers, u)[0]["error"][target][0]
                    for u in units
                ]
                for s in seeds
            ]
            counts = [matrices(trained_rows(its, target, layers, u)[0], method) for u in units]
            label = f"{layers} hidden" + (f", {CONSTRUCTIONS[method]}" if len(methods) > 1 else "")
            x = counts if against == "matrices" else units
            curve(axis, x, errors, label, colour, style, marker=".")
    _logarithmic(axis, units if against == "units" else ())
    title(axis, NAMES[target], against, "squared error")
    axis.legend(fontsize=6, frameon=False)


def _draw_square(axis: Axes, rows: Rows, against: str) -> None:
    x_of = "matrices_of" if against == "matrices" else "units_of"
    for colour, name in enumerate((AS_EXACT if against == "matrices" else SHALLOW, FOLDED)):
        errors = [row["error"][name] for row in rows]
        curve(axis, rows[0][x_of][name], errors, name, colour, marker=".")
    _logarithmic(axis, rows[0][x_of][FOLDED][::2] if against == "units" else ())
    title(axis, "x^2" + (", BRIDGE" if against == "matrices" else ""), against, "largest error")
    axis.legend(fontsize=6, frameon=False)


def _logarithmic(axis: Axes, at: Sequence[int]) -> None:
    """Both axes; the lower one with these ticks and no others, if there are any."""
    axis.set_xscale("log")
    axis.set_yscale("log")
    if at:
        axis.set_xticks(at, [str(value) for value in at])
        axis.set_xticks([], minor=True)
