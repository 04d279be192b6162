"""The page of an experiment, in Markdown, made from its record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from icgd.experiments.estimate import duration
from icgd.experiments.experiment import Claim, Experiment, ResultTable, verdict
from icgd.experiments.record import Record

_WORDS = {True: "yes", False: "**no**", None: "not decided"}


def page(experiment: Experiment, record: Record, figure: str) -> str:
    """Verdict, figure, claims, tables, how it was made, what differs from the paper.

    figure  address of the picture
    """
    claims = experiment.claims(record.rows)
    parts = [
        f"# {experiment.name}: {experiment.title}",
        f"{experiment.paper}, {experiment.where}. Scale `{record.scale}`, {record.seeds} seeds; curves are "
        "medians over seeds, shades their range. An ordering counts as decided only if all seeds agree.",
        f"**{verdict(claims)}**" if claims else "",
        f"![{experiment.title}]({figure})",
        "## What the paper says, and what was measured",
        _claims(claims),
        "## Numbers",
        *(f"{table.title}\n\n{markdown(table)}" for table in experiment.tables(record.rows)),
        "## How it was made",
        f"```sh\n{record.command}\n```",
        f"{duration(record.seconds)} on {record.workers} cores (torch {record.torch}). The command writes this "
        "page, the figure, `record.json` with every number, and `results.parquet`.",
        _scales(experiment),
    ]
    if experiment.differs:
        points = "\n".join(f"- {point}" for point in experiment.differs)
        parts += ["## What differs from the paper", points]
    return "\n\n".join(part for part in parts if part) + "\n"


def markdown(table: ResultTable) -> str:
    """A table as Markdown has it."""
    return _grid(table.columns, table.rows)


def _claims(claims: Sequence[Claim]) -> str:
    rows = [(claim.paper, claim.found, _WORDS[claim.holds]) for claim in claims]
    return _grid(("The paper", "Measured", "Holds here"), rows)


def _scales(experiment: Experiment) -> str:
    sizes = experiment.sizes
    names = list(next(iter(sizes.values())).settings())
    rows = [
        (f"`{name}`", *(_value(size.settings()[name]) for size in sizes.values())) for name in names
    ]
    return _grid(("Setting", *sizes), rows)


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(_value(v) for v in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _grid(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
