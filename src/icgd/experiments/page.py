"""The page of an experiment, in Markdown, made from its record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from icgd.experiments.estimate import duration
from icgd.experiments.experiment import Claim, Experiment, ResultTable, verdict
from icgd.experiments.over_seeds import ERROR_MARGIN, R2_MARGIN
from icgd.experiments.record import Record

_WORDS = {True: "yes", False: "**no**", None: "not decided"}


def page(experiment: Experiment, record: Record, figure: str) -> str:
    """Verdict, figure, claims, tables, how it was made, what differs from the paper.

    figure  address of the picture
    """
    claims = experiment.claims(record.rows)
    parts = [
        f"# {experiment.name}: {experiment.title}",
        f"{experiment.paper}, {experiment.where}.",
        f"**At {record.scale} scale, {record.seeds} seeds. {verdict(claims)}**" if claims else "",
        f"![{experiment.title}]({figure})",
        "Curves are medians over seeds, shades their range. A claim is decided only if all seeds agree, "
        f"orderings by more than a margin ({ERROR_MARGIN:.0%} of an error, {R2_MARGIN} of R2); one about "
        "several cases holds if all hold and fails if one fails. With three seeds a coin would decide one "
        "case in four, and refute a claim about three cases one time in three: a small difference that is "
        f"decided says little. {experiment.seeds_differ}",
        "## What the paper says, and what was measured",
        _claims(claims),
        "## Numbers",
        *(f"{table.title}\n\n{markdown(table)}" for table in experiment.tables(record.rows)),
        "## How it was made",
        f"```sh\n{record.command}\n```",
        f"{duration(record.seconds)} with {record.workers} workers of one thread each (torch {record.torch}). "
        "The command writes this page, the figure, `record.json` with every number, and `results.parquet`.",
        record.remark,
        "Settings of this run, and of the other scales:",
        _scales(experiment, record),
    ]
    if experiment.differs:
        points = "\n".join(f"- {point}" for point in experiment.differs)
        parts += ["## What differs from the paper", points]
    return "\n\n".join(part for part in parts if part) + "\n"


def markdown(table: ResultTable) -> str:
    """A table as Markdown has it."""
    return _grid(table.columns, table.rows)


def _claims(claims: Sequence[Claim]) -> str:
    rows = [
        (f"(our question) {c.paper}" if c.ours else c.paper, c.found, _WORDS[c.holds])
        for c in claims
    ]
    return _grid(("The paper", "Measured", "Holds here"), rows)


def _scales(experiment: Experiment, record: Record) -> str:
    """Settings by scale: of the record's own scale those it was made with."""
    told = {scale: size.settings() for scale, size in experiment.sizes.items()}
    told[record.scale] = record.settings
    rows = [
        (f"`{name}`", *(_value(settings.get(name)) for settings in told.values()))
        for name in record.settings
    ]
    if record.costs:
        costs = {**record.costs, record.scale: record.seconds}
        rows.append(
            (
                f"time; trainings alone but for {record.scale}",
                *(duration(costs[s]) if s in costs else "" for s in told),
            )
        )
    return _grid(("Setting", *told), rows)


def _value(value: object) -> str:
    if isinstance(value, (tuple, list)):
        return ", ".join(
            f"({_value(v)})" if isinstance(v, (tuple, list)) else _value(v) for v in value
        )
    return f"{value:g}" if isinstance(value, float) else str(value)


def _grid(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
