"""The page of an experiment, in Markdown, made from its record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from icgd.lab.experiments.claim import Claim, tally
from icgd.lab.experiments.experiment import Experiment, ResultTable
from icgd.lab.experiments.over_seeds import ERROR_MARGIN, R2_MARGIN
from icgd.lab.experiments.record import Addition, Record
from icgd.lab.sweeps.time_estimate import duration

READING = (
    "Curves are medians over seeds, shades their range. An ordering is decided only if all seeds agree "
    f"by more than a margin ({ERROR_MARGIN:.0%} of an error, {R2_MARGIN} of R2). A claim about several "
    "cases holds only if every case does, and fails if one case fails. By chance alone, three seeds "
    "agree one time in four, and refute a claim about three cases one time in three, so a small "
    "difference says little even if it is decided. *Undertrained* means that a model the claim rests on is "
    "worse than the best naive predictor of its task, in one seed or more: such models decide nothing, "
    "whichever way the numbers point."
)


def page(experiment: Experiment, record: Record, figure: str) -> str:
    """Question, tally, figure, claims, tables, how it was made, what differs from the paper.

    figure  address of the picture
    """
    claims = experiment.claims(record.rows)
    parts = [
        f"# {experiment.name}: {experiment.title}",
        experiment.question,
        f"{experiment.paper}, {experiment.where}.",
        f"**Claims of the paper, at {record.scale} scale with {record.seeds} seeds: {tally(claims)}.**"
        if claims
        else "",
        f"![{experiment.title}]({figure})",
        f"{READING} {experiment.seeds_differ}",
        "## What the paper says, and what was measured",
        _claims(claims),
        _shortfalls(claims),
        "## Numbers",
        *(f"{table.title}\n\n{markdown(table)}" for table in experiment.tables(record.rows)),
        "## How it was made",
        f"```sh\n{record.command}\n```",
        f"{duration(record.seconds)} with {record.workers} workers of one thread each (torch {record.torch}). "
        "The command writes this page, the figure, `record.json` with every number, and `results.parquet`.",
        record.remark,
        *(_addition(addition) for addition in record.added),
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
        (
            claim.verdict.mark,
            f"(our question) {claim.paper}" if claim.ours else claim.paper,
            claim.found,
            claim.word,
        )
        for claim in claims
    ]
    return _grid(("", "The paper", "Measured", "Verdict"), rows)


def _shortfalls(claims: Sequence[Claim]) -> str:
    """Models that have not learned what a naive predictor has, each once."""
    short = dict.fromkeys(text for claim in claims for text in claim.shortfalls)
    if not short:
        return ""
    points = "\n".join(f"- {text}" for text in short)
    return f"Worse than the best naive predictor, and so undertrained:\n\n{points}"


def _addition(addition: Addition) -> str:
    return (
        f"{addition.n_rows} rows that need no training (naive predictors, and anything else without a trained "
        f"model) were added to the record later, by `{addition.command}`: {duration(addition.seconds)}, "
        f"torch {addition.torch}. All other rows come from the run above."
    )


def _scales(experiment: Experiment, record: Record) -> str:
    """Settings by scale: of the record's own scale those it was made with."""
    by_scale = {scale: size.settings() for scale, size in experiment.sizes.items()}
    by_scale[record.scale] = record.settings
    rows = [
        (f"`{name}`", *(_value(settings.get(name)) for settings in by_scale.values()))
        for name in record.settings
    ]
    if record.costs:
        costs = {**record.costs, record.scale: record.seconds}
        rows.append(
            (
                f"time; trainings alone but for {record.scale}",
                *(duration(costs[s]) if s in costs else "" for s in by_scale),
            )
        )
    return _grid(("Setting", *by_scale), rows)


def _value(value: object) -> str:
    if isinstance(value, (tuple, list)):
        return ", ".join(
            f"({_value(v)})" if isinstance(v, (tuple, list)) else _value(v) for v in value
        )
    return f"{value:g}" if isinstance(value, float) else str(value)


def _grid(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
