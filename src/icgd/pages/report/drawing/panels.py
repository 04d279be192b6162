"""What can be drawn of several runs over one pair of axes, and which runs may share them.

Two runs share axes only where the numbers mean the same: losses need the same data and the same loss,
differences of weights need the same weights as well. Everything else gets axes of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from icgd.base.construction import by_method
from icgd.pages.report.chart import RUN_COLOURS, Chart, Line, Number, Series, drawable
from icgd.pages.report.results import Run
from icgd.pages.report.stories import least_squares, network
from icgd.pages.report.stories.linear_model import distance_name

Curve = tuple[Sequence[Number], Sequence[Number], Line]
"""Values over values, and how they are drawn."""


def family(run: Run) -> str:
    """network, linear (loops) or linear_model: results of one family have the same curves."""
    return run.model if run.model in ("network", "linear") else "linear_model"


def data_key(run: Run) -> Hashable:
    """Equal for runs on the same rows, as far as a result tells.

    The digest of the table does; of older results, means and scales of the columns tell tables apart
    better than the names of files do.
    """
    config, scales = run.config, run.result.get("standardization")
    if config.get("table"):
        return json.dumps([config["table"], bool(config.get("standardize"))])
    known = bool(config.get("standardize")) and bool(scales)
    names = {key: config.get(key) for key in ("rows", "features", "standardize")}
    target = config.get("targets", [config.get("target")])
    labels = _labels(run) if known else config.get("data")
    features = scales.get("features") if known and isinstance(scales, Mapping) else None
    return json.dumps([names, target, features, labels], sort_keys=True)


def _labels(run: Run) -> bool:
    """Whether the target is scaled; labels and counts are taken as they are."""
    return run.model in ("logistic", "poisson")


def objective_key(run: Run) -> Hashable:
    """Equal for runs that lower the same function of predictions."""
    problem = run.config.get("problem")
    problem = problem if isinstance(problem, Mapping) else {}
    if run.model == "network":
        return ("network", str(problem.get("loss", "squared")))
    if (
        run.model == "linear"
    ):  # the same problem with or without a penalty's place in its description
        return ("linear", float(problem.get("lam") or 0.0))
    kept = ("loss", "lam", "penalty", "intercept")
    return (run.model, *(str(problem.get(key)) for key in kept))


def weights_key(run: Run) -> Hashable:
    """Equal for runs that train the same weights."""
    problem = run.config.get("problem")
    problem = problem if isinstance(problem, Mapping) else {}
    kept = ("widths", "activation", "output", "bias") if run.model == "network" else ()
    return (objective_key(run), *(str(problem.get(key)) for key in kept))


@dataclass(frozen=True)
class Panel:
    """One kind of chart for runs of one family.

    curves  of a run: the measured one, then its bound where there is one; empty if there is none
    same    what must be equal beside the data for runs to share axes
    """

    id: str
    title: str
    x: str
    y: Callable[[Run], str]
    curves: Callable[[Run], list[Curve]]
    same: Callable[[Run], Hashable]
    log_x: bool = False
    log_y: bool = True


def _curve(run: Run, name: str) -> Mapping[str, Any]:
    return (run.result.get("curves") or {}).get(name) or {}


def passes(run: Run, rounds: Sequence[Number]) -> list[Number]:
    """Rounds as passes over the data: a round of a chain of thought is one row, of a stack all rows."""
    rows = run.config.get("rows")
    one = (
        by_method(run.result.get("method")).rounds == "epochs"
        and isinstance(rows, int)
        and rows > 0
    )
    return [None if r is None else r / rows if one else float(r) for r in rounds]  # type: ignore[operator]


def _network(curve: str, *keys: tuple[str, Line]) -> Callable[[Run], list[Curve]]:
    def found(run: Run) -> list[Curve]:
        values = _curve(run, curve)
        if not values.get("round") or any(key not in values for key, _ in keys):
            return []
        x = passes(run, values["round"])
        return [(x, values[key], line) for key, line in keys]

    return found


def _fit(*keys: tuple[str, Line]) -> Callable[[Run], list[Curve]]:
    def found(run: Run) -> list[Curve]:
        values = _curve(run, "fit")
        if not values.get("round") or any(key not in values for key, _ in keys):
            return []
        return [(values["round"], values[key], line) for key, line in keys]

    return found


def _loop(curve: str, suffix: str = "") -> Callable[[Run], list[Curve]]:
    def found(run: Run) -> list[Curve]:
        values = _curve(run, curve).get(f"{run.result['optimizer']}{suffix}")
        return [(least_squares.loops(values), values, "solid")] if values else []

    return found


def _always(text: str) -> Callable[[Run], str]:
    return lambda _: text


PASSES = "passes over the data"
FAR = 5
"""Runs that are this many times as long need a logarithmic axis beside the shorter ones."""
PANELS: dict[str, tuple[Panel, ...]] = {
    "network": (
        Panel(
            "loss",
            "Loss of the networks trained by the transformer",
            PASSES,
            _always("mean of ½|o − y|²"),
            _network("loss", ("transformer", "solid")),
            objective_key,
            log_y=False,
        ),
        Panel(
            "error",
            "Error of one round or step; dotted: its bound",
            PASSES,
            _always(network.DIFFERENCE),
            _network("error", ("round_error", "points"), ("round_bound", "dot")),
            weights_key,
        ),
        Panel(
            "run",
            "Difference to SGD's weights so far",
            PASSES,
            _always(network.DIFFERENCE),
            _network("error", ("error", "solid")),
            weights_key,
        ),
    ),
    "linear_model": (
        Panel(
            "objective",
            "Objective",
            "step",
            _always("objective"),
            _fit(("objective", "solid")),
            objective_key,
            log_x=True,
            log_y=False,
        ),
        Panel(
            "fit",
            "Distance to the minimiser; dotted: the theorem's bound",
            "step",
            lambda run: distance_name(run.result),
            _fit(("distance", "solid"), ("theorem", "dot")),
            weights_key,
            log_x=True,
        ),
        Panel(
            "step",
            "Error of one step; dotted: its bound",
            "step",
            _always(network.DIFFERENCE),
            _fit(("step_error", "points"), ("step_bound", "dot")),
            weights_key,
            log_x=True,
        ),
        Panel(
            "run",
            "Difference to exact descent; dotted: its bound",
            "step",
            _always(network.DIFFERENCE),
            _fit(("error", "solid"), ("global_bound", "dot")),
            weights_key,
            log_x=True,
        ),
    ),
    "linear": (
        Panel(
            "distance",
            "Distance to the least-squares solution",
            "loops",
            _always("|w − w*|"),
            _loop("distance", "_transformer"),
            objective_key,
            log_x=True,
        ),
        Panel(
            "error",
            "Difference to the exact algorithm",
            "loops",
            _always(network.DIFFERENCE),
            _loop("error"),
            weights_key,
            log_x=True,
        ),
    ),
}


def shared(runs: Sequence[Run], panel: Panel) -> list[list[Run]]:
    """The runs that have this panel's curves, those that may share axes together."""
    groups: dict[Hashable, list[Run]] = {}
    for run in runs:
        if panel.curves(run):
            groups.setdefault((data_key(run), panel.same(run)), []).append(run)
    return list(groups.values())


def comparison_charts(runs: Sequence[Run]) -> list[Chart]:
    """Every curve of every run, over common axes as far as they may be shared."""
    charts = []
    families = list(dict.fromkeys(family(run) for run in runs))
    for name in families:
        for panel in PANELS[name]:
            groups = shared([run for run in runs if family(run) == name], panel)
            for number, group in enumerate(groups, 1):
                several = len(groups) > 1 or len(families) > 1
                charts.append(_chart(panel, group, runs, name, number if several else 0))
    return charts


def _chart(panel: Panel, group: list[Run], runs: Sequence[Run], name: str, number: int) -> Chart:
    series = []
    for place, run in enumerate(group):
        colour = RUN_COLOURS[next(i for i, other in enumerate(runs) if other is run)]
        # Curves that coincide stay visible: those below are broader.
        width = 1.4 + min(0.9, 4 / max(1, len(group) - 1)) * (len(group) - 1 - place)
        for k, (x, y, line) in enumerate(panel.curves(run)):
            bound = k > 0
            label = f"{run.name}, bound" if bound else run.name
            series.append(
                Series(
                    label,
                    x,
                    y,
                    colour,
                    line,
                    1.1 if bound else width,
                    named=not bound,
                    group=run.name,
                )
            )
    # Runs of very different lengths: on a linear axis the shorter ones would be a line at the left.
    ends = [max((v for v in s.x if v is not None), default=0.0) for s in series]
    log_x = panel.log_x or max(ends) > FAR * min(ends)
    zeros = [run.name for run in group if panel.log_y and 0 in panel.curves(run)[0][1]]
    whose = f": {', '.join(run.name for run in group)}" if number else ""
    note = f"Values of exactly 0 are not drawn on this axis ({', '.join(zeros)})." if zeros else ""
    if log_x and any(v == 0 for s in series for v in s.x):
        note = f"The start, at 0 {panel.x}, is not drawn: the axis is logarithmic. {note}".strip()
    return drawable(
        Chart(
            f"{panel.id}-{name}-{number}" if number else panel.id,
            f"{panel.title}{whose}",
            panel.x,
            panel.y(group[0]),
            tuple(series),
            log_x=log_x,
            log_y=panel.log_y,
            note=note,
        )
    )
