"""docs/results: a page and a figure per experiment, made from the records that come with the package.

python -m tools.generate_results                      all pages again
python -m tools.generate_results --take runs/reproduce   first take over the laptop records found there
python -m tools.generate_results --complete           first compute what records lack and needs no training
python -m tools.generate_results --price              first time the smoke scale, by running it (idle cores)
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from icgd import __version__
from icgd.errors import InvalidFile
from icgd.lab.experiments.claim import Verdict, tally
from icgd.lab.experiments.experiment import SCALES
from icgd.lab.experiments.page import page
from icgd.lab.experiments.record import (
    Addition,
    Record,
    read_record,
    recorded,
    recorded_path,
    restored,
    rounded,
    verdicts_of,
)
from icgd.lab.experiments.reproduce import RECORD, write_figure
from icgd.lab.sweeps.cells import Cell, digest_of, run_cells
from icgd.lab.sweeps.time_estimate import duration, estimate
from icgd.lab.sweeps.workers import make_executor
from icgd.papers.registry import EXPERIMENTS

DOCS = Path(__file__).resolve().parent.parent / "docs" / "results"
FIGURES = "figures"
COMPLETE = "python -m tools.generate_results --complete"
SIDEBAR = {
    "cot-d": "COT D: learned operators",
    "deep-g1": "DEEP G.1: networks in context",
    "deep-g2": "DEEP G.2: shifted parameters",
    "deep-g3": "DEEP G.3: deeper transformers",
    "deep-h": "DEEP H: diffusion in context",
    "algo-fig2": "ALGO Figure 2: three models",
    "algo-fig3": "ALGO Figure 3: loops",
    "algo-fig4": "ALGO Figure 4: layers and heads",
    "algo-fig5": "ALGO Figure 5: noise",
    "algo-nmt": "ALGO 5.5: translation",
    "bridge-resources": "BRIDGE: what depth buys",
    "lsa-train": "LSA: linear attention trained",
}
"""What the site's navigation calls the pages."""


def take(runs: Path, names: list[str]) -> list[str]:
    """Copy laptop records of a directory of runs into the package; which ones.

    A record of other settings than those of today stays where it is.
    """
    taken = []
    for name in names or list(EXPERIMENTS):
        source = runs / f"{name}-laptop" / RECORD
        try:
            record = read_record(source)
        except InvalidFile as error:
            print(f"{name}: {error}")
            continue
        if record.cells != digest_of(EXPERIMENTS[name].as_recorded(record.rows).cells("laptop")):
            print(f"{name}: a record of other settings: icgd reproduce {name} --scale laptop")
            continue
        recorded_path(name).parent.mkdir(exist_ok=True)
        record.write(recorded_path(name))
        taken.append(name)
    return taken


def lacking(name: str, record: Record) -> list[Cell]:
    """Cells without a training that the experiment has gained since its record was made, at their end.

    Everything before them must be what the record is of.
    """
    cells = EXPERIMENTS[name].as_recorded(record.rows).cells(record.scale)
    if digest_of(cells) == record.cells:
        return []
    known, new = cells[: len(record.rows)], cells[len(record.rows) :]
    if digest_of(known) != record.cells:
        raise InvalidFile(
            f"The record of {name} is of other settings: icgd reproduce {name} --scale laptop"
        )
    trained = [cell.key for cell in new if cell.steps]
    if trained:
        raise InvalidFile(
            f"{name} has new cells that train: {trained[0]}. Run icgd reproduce {name}"
        )
    return new


def completed(name: str, record: Record) -> Record:
    """A record with rows for all cells of today that need no training, and how they were computed."""
    new = lacking(name, record)
    if not new:
        return record
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        rows = run_cells(new, Path(place), make_executor("joblib", 1))
    addition = Addition(
        command=f"{COMPLETE} {name}",
        before=record.cells,
        n_rows=len(new),
        seconds=time.perf_counter() - started,
        torch=torch.__version__.split("+")[0],
        icgd=__version__,
    )
    cells = EXPERIMENTS[name].as_recorded(record.rows).cells(record.scale)
    return record.model_copy(
        update={
            "rows": [*record.rows, *restored(rounded(rows))],
            "cells": digest_of(cells),
            "added": [*record.added, addition],
        }
    )


def judged(name: str, record: Record) -> Record:
    """A record with the verdicts of today."""
    return record.model_copy(
        update={"verdicts": verdicts_of(EXPERIMENTS[name].claims(record.rows))}
    )


def priced(name: str, record: Record) -> Record:
    """A record that tells what every scale costs, on this machine if it does not yet."""
    if record.costs:
        return record
    # Without the text of the record, if it had one: none is needed here.
    cells = {s: EXPERIMENTS[name].cells(s) for s in SCALES if s != record.scale}
    # Scales with the same cells have one cost, not two estimates of it.
    known = {digest_of(c): c for scale, c in cells.items() if scale != "smoke"}
    seconds = {key: estimate(c, record.workers).seconds for key, c in known.items()}
    costs = {scale: seconds[digest_of(c)] for scale, c in cells.items() if scale != "smoke"}
    return timed(name, record.model_copy(update={"costs": costs}))


def timed(name: str, record: Record) -> Record:
    """A record that tells what the smoke scale takes: so little work is done, not estimated."""
    words = ["reproduce", name, "--scale", "smoke", "--workers", str(record.workers)]
    with tempfile.TemporaryDirectory() as place:
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "icgd", *words, "--out", place],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        seconds = float(f"{time.perf_counter() - started:.2g}")
    return record.model_copy(update={"costs": {**record.costs, "smoke": seconds}})


def page_of(name: str, record: Record) -> str:
    """The page of a record in the documentation."""
    return page(EXPERIMENTS[name], record, f"{FIGURES}/{name}.png")


def index() -> str:
    """The page that lists all experiments: a tally of each, then a mark for every claim."""
    legend = ", ".join(f"{verdict.mark} {verdict.value}" for verdict in Verdict)
    lines = [
        "# Results",
        "",
        "One command runs each experiment of the papers on two cores. Its page has the figure, the "
        "numbers, every",
        "claim of the paper beside what we measured, the command and the time it took. An ordering is "
        "decided only if all",
        "seeds agree. Models that are worse than a naive predictor of their task (a constant, least "
        "squares, ridge on",
        "the raw inputs) are undertrained, and no claim is judged by them. All records are at laptop "
        "scale: they show",
        "what minutes of training can show, not what holds at convergence.",
        "",
        "| Experiment | Paper | What | Scale, seeds, time | Tally |",
        "| --- | --- | --- | --- | --- |",
    ]
    marks = [
        "",
        "## Claim by claim",
        "",
        f"{legend}. Questions that the paper does not ask are in italics.",
    ]
    for name, experiment in EXPERIMENTS.items():
        record = recorded(name)
        where = f"{experiment.paper}, {experiment.where}"
        if record is None:
            lines.append(f"| `{name}` | {where} | {experiment.title} | not recorded | |")
            continue
        run = f"{record.scale}, {record.seeds}, {duration(record.seconds)}"
        claims = experiment.claims(record.rows)
        lines.append(
            f"| [{name}]({name}.md) | {where} | {experiment.title} | {run} | {tally(claims)} |"
        )
        marks += ["", f"### {name}", ""]
        marks += [
            f"- {claim.verdict.mark} {f'*{claim.short}*' if claim.ours else claim.short}"
            for claim in claims
        ]
    lines += [
        *marks,
        "",
        "## Commands",
        "",
        "```sh",
        "icgd reproduce --list                      # all experiments and their recorded verdicts",
        "icgd reproduce algo-fig3 --scale smoke     # the same code, in a minute",
        "icgd reproduce algo-fig3 --scale laptop    # the page of this site",
        "icgd reproduce algo-fig3 --scale overnight --estimate # longer runs; none is recorded",
        "icgd reproduce algo-fig3 --scale paper --estimate",
        "```",
        "",
        "```{toctree}",
        ":hidden:",
        "",
        *(f"{SIDEBAR.get(name, name)} <{name}>" for name in EXPERIMENTS),
        "```",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Write all pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--take", type=Path, help="directory of `icgd reproduce`")
    parser.add_argument(
        "--complete", action="store_true", help="compute rows that need no training"
    )
    parser.add_argument("--price", action="store_true", help="time the smoke scale again")
    parser.add_argument(
        "names", nargs="*", help="experiments to take, complete or price; all unless given"
    )
    given = parser.parse_args()
    if given.take is not None:
        print("taken:", ", ".join(take(given.take, given.names)) or "none")
    (DOCS / FIGURES).mkdir(parents=True, exist_ok=True)
    for name, experiment in EXPERIMENTS.items():
        record = recorded(name)
        if record is None:
            continue
        if given.complete and (not given.names or name in given.names):
            record = completed(name, record)
        if given.price and (not given.names or name in given.names):
            record = timed(name, record)
        record = judged(name, priced(name, record))
        record.write(recorded_path(name))
        (DOCS / f"{name}.md").write_text(page_of(name, record), encoding="utf-8")
        write_figure(experiment, record, DOCS / FIGURES / f"{name}.png")
    (DOCS / "index.md").write_text(index(), encoding="utf-8")


if __name__ == "__main__":
    main()
