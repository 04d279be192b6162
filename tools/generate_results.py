"""docs/results: a page and a figure per experiment, made from the records that come with the package.

python -m tools.generate_results                      all pages again
python -m tools.generate_results --take runs/reproduce   first take over the laptop records found there
"""

from __future__ import annotations

import argparse
from pathlib import Path

from icgd.errors import InvalidFile
from icgd.experiments.cells import digest_of
from icgd.experiments.estimate import duration, estimate
from icgd.experiments.experiment import SCALES, verdict
from icgd.experiments.page import page
from icgd.experiments.record import Record, read_record, recorded, recorded_path
from icgd.experiments.registry import EXPERIMENTS
from icgd.experiments.reproduce import RECORD, write_figure

DOCS = Path(__file__).resolve().parent.parent / "docs" / "results"
FIGURES = "figures"


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


def priced(name: str, record: Record) -> Record:
    """A record that tells what every scale costs, on this machine if it does not yet."""
    if record.costs:
        return record
    # Without the text of the record, if it had one: none is needed here.
    cells = {s: EXPERIMENTS[name].cells(s) for s in SCALES if s != record.scale}
    # Scales with the same cells have one cost, not two estimates of it.
    known = {digest_of(c): c for c in cells.values()}
    seconds = {key: estimate(c, record.workers).seconds for key, c in known.items()}
    costs = {scale: seconds[digest_of(c)] for scale, c in cells.items()}
    told = record.model_copy(update={"costs": costs})
    told.write(recorded_path(name))
    return told


def page_of(name: str, record: Record) -> str:
    """The page of a record in the documentation."""
    return page(EXPERIMENTS[name], record, f"{FIGURES}/{name}.png")


def index() -> str:
    """The page that lists all experiments."""
    lines = [
        "# Results",
        "",
        "Experiments of the papers, each run by one command on two cores. Every page has the figure, the",
        "numbers, what the paper says beside what was measured, the command and its time. An ordering is",
        "decided only if all seeds agree; small scales show what can be seen in minutes, not what holds at",
        "convergence.",
        "",
        "| Experiment | Paper | What | Scale, seeds, time | Verdict |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, experiment in EXPERIMENTS.items():
        record = recorded(name)
        where = f"{experiment.paper}, {experiment.where}"
        if record is None:
            lines.append(f"| `{name}` | {where} | {experiment.title} | not recorded | |")
            continue
        made = f"{record.scale}, {record.seeds}, {duration(record.seconds)}"
        said = verdict(experiment.claims(record.rows))
        lines.append(f"| [{name}]({name}.md) | {where} | {experiment.title} | {made} | {said} |")
    lines += [
        "",
        "```sh",
        "icgd reproduce --list                      # all experiments and their recorded verdicts",
        "icgd reproduce algo-fig3 --scale smoke     # the same code, in a minute",
        "icgd reproduce algo-fig3 --scale laptop    # the page of this site",
        "icgd reproduce algo-fig3 --scale overnight # where orderings are decided",
        "icgd reproduce algo-fig3 --scale paper --estimate",
        "```",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Write all pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--take", type=Path, help="directory of `icgd reproduce`")
    parser.add_argument("names", nargs="*", help="experiments to take; all unless given")
    given = parser.parse_args()
    if given.take is not None:
        print("taken:", ", ".join(take(given.take, given.names)) or "none")
    (DOCS / FIGURES).mkdir(parents=True, exist_ok=True)
    for name, experiment in EXPERIMENTS.items():
        record = recorded(name)
        if record is not None:
            record = priced(name, record)
            (DOCS / f"{name}.md").write_text(page_of(name, record), encoding="utf-8")
            write_figure(experiment, record, DOCS / FIGURES / f"{name}.png")
    (DOCS / "index.md").write_text(index(), encoding="utf-8")


if __name__ == "__main__":
    main()
