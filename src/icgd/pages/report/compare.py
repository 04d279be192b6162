"""Several runs beside each other: tables with a column per run, and what may not be compared."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from icgd.base.construction import by_method
from icgd.pages.report.again import again
from icgd.pages.report.chart import COLOURS, ON_DARK, RUN_COLOURS, Bars, Chart
from icgd.pages.report.drawing.panels import (
    comparison_charts,
    data_key,
    family,
    objective_key,
    weights_key,
)
from icgd.pages.report.page import flat_rows, rendered, stills
from icgd.pages.report.results import Run
from icgd.pages.report.statements import statement_rows
from icgd.pages.report.stories.least_squares import NAMES as OPTIMIZERS
from icgd.pages.report.stories.network import EXECUTORS, has_cost
from icgd.pages.report.stories.numbers import number
from icgd.pages.report.stories.story import story

NONE = "–"
BOUNDS = {
    "round_bound": "One round or step",
    "global_bound": "Whole run, rigorous",
    "paper_bound": "Whole run, as in the paper",
}
"""Names for all three ways to train a network."""


@dataclass(frozen=True)
class Row:
    """One line of a table: a cell per run; `differs` where settings do."""

    name: str
    cells: list[str]
    differs: bool = False


def what(run: Run) -> str:
    """What a run trained, and how."""
    if run.model == "network":
        known = by_method(run.result.get("method"))
        rows = "one row a round" if known.rounds == "epochs" else "all rows a step"
        return f"network, {known.label} ({rows})"
    if run.model == "linear":
        return f"least squares, loops of {OPTIMIZERS[run.result['optimizer']]}"
    return f"{run.model} regression, chain of thought (all rows a step)"


def data_name(run: Run) -> str:
    """The table a run was made on, in a few words."""
    config = run.config
    source = str(config.get("data", "unknown data")).removeprefix("example:")
    name = source.replace("\\", "/").rpartition("/")[2]
    return f"{name}, {number(config.get('rows'))} rows"


def _table(runs: Sequence[Run], lines: Callable[[Run], Sequence[tuple[str, str]]]) -> list[Row]:
    """Lines of all runs by name, in the order in which they first occur."""
    columns = [dict(lines(run)) for run in runs]
    names = list(dict.fromkeys(name for values in columns for name in values))
    return [Row(name, [values.get(name, NONE) for values in columns]) for name in names]


def _marked(rows: Sequence[Row]) -> list[Row]:
    return [Row(row.name, row.cells, len(set(row.cells)) > 1) for row in rows]


def settings(runs: Sequence[Run]) -> list[Row]:
    """The whole configuration, what differs marked and first."""
    rows = _marked(_table(runs, lambda run: flat_rows(run.config)))
    short = [Row(row.name, [_short(cell) for cell in row.cells], row.differs) for row in rows]
    return sorted(short, key=lambda row: not row.differs)


def _short(cell: str) -> str:
    """Long lists, such as the names of thirty columns, by their first entries."""
    parts = cell.split(", ")
    return cell if len(parts) <= 8 else f"{', '.join(parts[:4])}, ... ({len(parts)})"


def summary(runs: Sequence[Run]) -> list[Row]:
    """What was trained on what, how it ended, and the settings that differ."""
    rows = _marked(
        _table(
            runs,
            lambda run: [
                ("Model", what(run)),
                ("Data", data_name(run)),
                ("Rounds or steps", number(run.result["rounds"])),
            ],
        )
    )
    verdict = Row("Verdict", ["passed" if run.result["passed"] else "NOT PASSED" for run in runs])
    # A setting that some of the runs do not have says little here; it stands in the configuration.
    changed = [
        row
        for row in settings(runs)
        if row.differs
        and NONE not in row.cells
        and row.name not in ("data", "rows", "table", "model")
    ]
    return [verdict, *rows, *changed]


def bound_table(runs: Sequence[Run]) -> list[Row]:
    """Every measured error beside the bound that speaks about it."""

    def lines(run: Run) -> list[tuple[str, str]]:
        bounds = story(run.result).bounds
        if not bounds:
            return [
                ("Difference to the exact algorithm: measured", number(run.result["max_error"]))
            ]
        network = run.model == "network"
        return [
            (f"{BOUNDS[row['key']] if network else row['title']}: {kind}", row[key])
            for row in bounds
            for kind, key in (("bound", "value"), ("measured", "measured"))
        ]

    return _table(runs, lines)


def cost_chart(runs: Sequence[Run]) -> Bars | None:
    """Operations of every run for which they were counted."""
    counted = [run for run in runs if has_cost(run.result)]
    if not counted:
        return None
    return Bars(
        "cost",
        "Operations of whole runs",
        "floating-point operations (matrix products)",
        tuple(run.name for run in counted),
        {text: tuple(run.result[key] for run in counted) for key, text in EXECUTORS.items()},
        dict(zip(EXECUTORS.values(), (COLOURS["sgd"], COLOURS["transformer"]), strict=True)),
    )


def _classes(runs: Sequence[Run], key: Callable[[Run], Hashable]) -> list[list[Run]]:
    groups: dict[Hashable, list[Run]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return list(groups.values())


def _named(group: Sequence[Run]) -> str:
    return ", ".join(run.name for run in group)


def comparability(runs: Sequence[Run]) -> list[str]:
    """In plain words: what is drawn together, what is not, and why."""
    notes = []
    tables = _classes(runs, data_key)
    if len(tables) > 1:
        each = "; ".join(f"{_named(group)} on {data_name(group[0])}" for group in tables)
        notes.append(
            f"Different data: {each}. Losses and errors on different data are numbers of different "
            "things and are not drawn together."
        )
    for table in tables:
        kinds = _classes(table, lambda run: (family(run), objective_key(run)))
        if len(kinds) > 1:
            each = "; ".join(f"{_named(group)}: {_objective(group[0])}" for group in kinds)
            notes.append(
                f"Different models on the same data: {each}. They lower different functions, so their "
                "curves are not drawn together."
            )
        for kind in kinds:
            nets = _classes(kind, weights_key)
            if len(nets) > 1:
                notes.append(
                    f"Different networks: {'; '.join(_named(group) for group in nets)}. Their losses are drawn "
                    "together, the differences of their weights are not: the weights are others."
                )
            rounds = _classes(
                kind, lambda run: by_method(run.result.get("method")).rounds == "epochs"
            )
            if kind[0].model == "network" and len(rounds) > 1:
                chains = [
                    run for run in kind if by_method(run.result.get("method")).rounds == "epochs"
                ]
                notes.append(
                    f"{_named(chains)}: a round is one row; in the other runs a step is all rows. Curves are "
                    "drawn over passes over the data; the error of one round and of one step are of "
                    "different amounts of work."
                )
    if not notes:
        notes.append(
            "All runs have the same data and the same model: every curve is drawn together."
        )
    return notes


def _objective(run: Run) -> str:
    problem = run.config.get("problem")
    lam = problem.get("lam") if isinstance(problem, Mapping) else None
    names = {"network": "networks", "linear": "least squares without penalty"}
    return names.get(run.model, f"{run.model}, penalty {number(lam)}")


def render_comparison(runs: Sequence[Run], title: str | None = None) -> str:
    """The page as text."""
    charts, bars = comparison_charts(runs), cost_chart(runs)
    touched: dict[str, tuple[Any, list[str]]] = {}
    for run in runs:
        for row in statement_rows(run.result):
            touched.setdefault(row.statement, (row, []))[1].append(run.name)
    return rendered(
        "comparison.html.j2",
        charts,
        stills([*charts, *([bars] if bars is not None else [])]),
        title=title or f"{len(runs)} runs compared",
        wide=len(runs) > 3,
        runs=runs,
        swatches=[(c, ON_DARK.get(c, c)) for c in RUN_COLOURS],
        comparable=comparability(runs),
        passed=sum(run.result["passed"] for run in runs),
        tables={
            "Summary": summary(runs),
            "Result": _table(runs, lambda run: story(run.result).rows),
            "Errors with their bounds": bound_table(runs),
            "Cost": _table(runs, lambda run: story(run.result).cost),
        },
        details={
            "Configuration": settings(runs),
            "Versions": _marked(
                _table(runs, lambda run: flat_rows(run.result.get("versions") or {}))
            ),
        },
        bars=bars,
        statements=list(touched.values()),
        notes=[(run.name, note) for run in runs for note in run.result.get("notes") or []],
        without=[run.name for run in runs if not story(run.result).charts],
        commands=[(run.name, again(run.result)) for run in runs],
        footers=sorted({story(run.result).footer for run in runs}),
    )


def comparison_pictures(runs: Sequence[Run]) -> list[Chart | Bars]:
    """Everything of a comparison that can be drawn for a paper."""
    bars = cost_chart(runs)
    return [*comparison_charts(runs), *([bars] if bars is not None else [])]
