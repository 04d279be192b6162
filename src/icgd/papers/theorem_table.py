"""The theorem table: every statement of a paper, executed as printed and as corrected.

A row is never typed in. A checker runs the printed form and looks for the failure it is said to
have, then runs the corrected form and holds its measured error against its bound. Papers register
their checkers; the table only collects and judges.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from importlib import import_module

from rich.markup import escape
from rich.table import Table

from icgd.errors import InvalidParameter
from icgd.papers.errata import CLASSES, strongest


@dataclass(frozen=True)
class Row:
    """One statement, judged.

    statement        where it stands in the paper
    printed          what it says there, in our words
    printed_verdict  what running the printed form showed: "holds", or the class of its errata,
                     "false", "slip", "reading" or "float" (`icgd.papers.errata`)
    counterexample   the numbers that show it
    corrected        the form this package uses
    measured, bound  error of the corrected form, and what is certified for it
    passed           the corrected form holds and the printed verdict is the documented one
    errata           entries of the errata this statement has, for example "COT 29"
    """

    statement: str
    printed: str
    printed_verdict: str
    counterexample: str
    corrected: str
    measured: float
    bound: float
    passed: bool
    errata: tuple[str, ...] = ()


def judge(
    statement: str,
    printed: str,
    *,
    refuted: bool,
    counterexample: str,
    corrected: str,
    measured: float,
    bound: float,
    also: bool = True,
    errata: tuple[str, ...] = (),
) -> Row:
    """A row from what was computed; NaN anywhere, or an infinite bound, is a failure.

    refuted      whether running the printed form produced its counterexample
    also         further exact conditions of the corrected form
    errata       what is documented: entries of the errata, or none for a statement that holds;
                 a row that finds anything else does not pass

    >>> judge("A", "", refuted=True, counterexample="", corrected="", measured=math.nan, bound=1.0).passed
    False
    """
    documented = strongest(errata) or "holds"
    # A refutation that no entry documents counts as the worst, and its row does not pass.
    verdict = (strongest(errata) or "false") if refuted else "holds"
    # NaN compares false, and a bound of infinity would promise nothing.
    holds = 0.0 <= measured <= bound < math.inf and also
    return Row(
        statement,
        printed,
        verdict,
        counterexample,
        corrected,
        float(measured),
        float(bound),
        holds and verdict == documented,
        errata,
    )


VERDICTS: tuple[str, ...] = ("holds", *CLASSES)
"""What a row can say of the printed form."""

Checker = Callable[[], Row]

PAPERS: dict[str, tuple[str, ...]] = {
    "COT": (
        "icgd.papers.cot.section_3.statements",
        "icgd.papers.cot.section_3.cost",
        "icgd.papers.cot.section_3.lemmas",
        "icgd.papers.cot.section_4.statements",
        "icgd.papers.cot.section_4.costs",
        "icgd.papers.cot.section_4.propositions",
    ),
    "DEEP": (
        "icgd.papers.deep.statements.definitions",
        "icgd.papers.deep.statements.layers",
        "icgd.papers.deep.statements.lemmas",
        "icgd.papers.deep.statements.theorems",
        "icgd.papers.deep.statements.paths",
        "icgd.papers.deep.appendix_h.statements",
        "icgd.papers.deep.statements.costs",
        "icgd.papers.deep.appendix_f.statements",
    ),
    "BRIDGE": (
        "icgd.papers.bridge.statements.theorems",
        "icgd.papers.bridge.statements.appendix",
        "icgd.papers.bridge.statements.fits",
        "icgd.papers.bridge.statements.resources",
    ),
    "ALGO": (
        "icgd.papers.algo.statements.regression",
        "icgd.papers.algo.statements.sequences",
        "icgd.papers.algo.statements.newton",
        "icgd.papers.algo.statements.decoder",
    ),
    "LSA": (
        "icgd.papers.lsa.statements.statements",
        "icgd.papers.lsa.statements.training",
    ),
}
"""Modules that register the checkers of a paper, imported when its table is asked for."""

_CHECKERS: dict[str, dict[str, Checker]] = {}


def checks(paper: str, statement: str) -> Callable[[Checker], Checker]:
    """Register a function as the checker of one statement; a module's own order is kept."""

    def register(checker: Checker) -> Checker:
        _CHECKERS.setdefault(paper, {})[statement] = checker
        return checker

    return register


def checkers(paper: str) -> dict[str, Checker]:
    """The checkers of a paper by statement, in the paper's order."""
    if paper not in PAPERS:
        raise InvalidParameter("paper", paper, f"be one of {sorted(PAPERS)}")
    modules = PAPERS[paper]
    for module in modules:
        import_module(module)

    def place(item: tuple[str, Checker]) -> int:
        # Someone may have imported the modules in another order before.
        home = item[1].__module__
        return modules.index(home) if home in modules else len(modules)

    return dict(sorted(_CHECKERS[paper].items(), key=place))


def theorem_table(paper: str) -> list[Row]:
    """Run every checker of a paper.

    paper  "COT", "DEEP", "BRIDGE", "ALGO" or "LSA"
    """
    return [checker() for checker in checkers(paper).values()]


def labelled(tables: Mapping[str, Iterable[Row]]) -> list[Row]:
    """The rows of several papers in one list, the paper's key before every statement."""
    return [
        replace(row, statement=f"[{paper}] {row.statement}")
        for paper, rows in tables.items()
        for row in rows
    ]


@dataclass(frozen=True)
class Tally:
    """How the statements of a paper came out.

    verdicts  how many rows have each verdict, "holds" first, then the classes of errata
    passed    rows whose corrected form holds and whose printed verdict is the documented one
    """

    statements: int
    verdicts: dict[str, int]
    passed: int


def tally(rows: Iterable[Row]) -> Tally:
    """Count verdicts.

    >>> tally([]).verdicts
    {'holds': 0, 'false': 0, 'slip': 0, 'reading': 0, 'float': 0}
    """
    listed = list(rows)
    counted = Counter(row.printed_verdict for row in listed)
    verdicts = {verdict: counted.pop(verdict, 0) for verdict in VERDICTS}
    if counted:
        raise InvalidParameter(
            "printed_verdict", next(iter(counted)), f"be one of {', '.join(VERDICTS)}"
        )
    return Tally(len(listed), verdicts, sum(row.passed for row in listed))


def render(rows: Iterable[Row], title: str = "Theorem table") -> Table:
    """The rows as a table for the terminal."""
    table = Table(title=title, show_lines=True)
    for name in ("statement", "as printed", "counterexample", "corrected", "measured", "bound", ""):
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(
            row.statement,
            f"{escape(row.printed)} ({_verdict(row)})",
            escape(row.counterexample),
            escape(row.corrected),
            f"{row.measured:.2e}",
            f"{row.bound:.2e}",
            "pass" if row.passed else "FAIL",
        )
    return table


def render_tallies(tables: Mapping[str, Iterable[Row]]) -> Table:
    """One line per paper: statements, how many hold as printed, and the classes of the others."""
    table = Table(title="As printed")
    for name in ("paper", "statements", *VERDICTS, "rows that pass"):
        table.add_column(name, justify="left" if name == "paper" else "right")
    for paper, rows in tables.items():
        count = tally(rows)
        cells = [count.statements, *count.verdicts.values(), count.passed]
        table.add_row(paper, *map(str, cells))
    return table


def _verdict(row: Row) -> str:
    """ "holds", or the class and the entries behind it: "slip: errata COT 16, COT 17"."""
    if not row.errata:
        return row.printed_verdict
    word = "erratum" if len(row.errata) == 1 else "errata"
    return f"{row.printed_verdict}: {word} {', '.join(row.errata)}"


def to_json(rows: Iterable[Row]) -> str:
    """The rows as strict JSON; numbers that JSON cannot hold are written as strings."""
    plain = [asdict(row) for row in rows]
    for row in plain:
        for name in ("measured", "bound"):
            if not math.isfinite(row[name]):
                row[name] = str(row[name])
    return json.dumps(plain, indent=2, allow_nan=False)
