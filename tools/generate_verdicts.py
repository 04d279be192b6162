"""Write the verdicts on the papers' statements into the documentation.

python -m tools.generate_verdicts              run every theorem table (minutes), then write everything
python -m tools.generate_verdicts COT LSA      run these and keep what docs/papers.md has of the others
python -m tools.generate_verdicts --counts     run nothing: sums of the table, and counts of the errata

The table is in docs/papers.md, its sums in README.md and docs/index.md, and the counts of entries by class on
the pages of errata, always between `<!-- begin NAME -->` and `<!-- end NAME -->`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from icgd.errors import InvalidParameter
from icgd.papers.errata import CLASSES, ERRATA, counts
from icgd.papers.numbered_statements import coverage
from icgd.papers.theorem_table import (
    PAPERS,
    VERDICTS,
    Tally,
    checkers,
    tally,
    theorem_table,
)

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "papers.md"
SENTENCES = (ROOT / "README.md", ROOT / "docs" / "index.md")
PAGES = {
    "COT": ROOT / "docs" / "errata.md",
    "DEEP": ROOT / "docs" / "errata_deep.md",
    "BRIDGE": ROOT / "docs" / "errata_bridge.md",
    "ALGO": ROOT / "docs" / "errata_algo.md",
    "LSA": ROOT / "docs" / "errata_lsa.md",
}
ROW = re.compile(r"^\| \[([A-Z]+)\]\(#\w+\) \|((?: \d+ \|){7})$", re.MULTILINE)


def between(text: str, name: str) -> re.Match[str] | None:
    """What stands between the markers of this name."""
    return re.search(rf"(<!-- begin {name} -->\n)(.*?)(<!-- end {name} -->)", text, re.DOTALL)


def replaced(text: str, name: str, content: str) -> str:
    """The text with this content between the markers of this name."""
    found = between(text, name)
    if found is None:
        raise InvalidParameter("name", name, "be the name of a pair of markers on the page")
    return f"{text[: found.end(1)]}{content}\n{text[found.start(3) :]}"


def recorded(text: str) -> dict[str, Tally]:
    """The tallies that the table of docs/papers.md shows."""
    found = between(text, "verdicts")
    shown = {}
    for match in ROW.finditer(found.group(2) if found else ""):
        statements, *verdicts, passed = map(int, re.findall(r"\d+", match.group(2)))
        shown[match.group(1)] = Tally(
            statements, dict(zip(VERDICTS, verdicts, strict=True)), passed
        )
    return shown


def table(tallies: Mapping[str, Tally]) -> str:
    """The table of docs/papers.md."""
    names = ("paper", "statements", *VERDICTS, "corrected form within its bound")
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    for paper, count in tallies.items():
        cells = (count.statements, *count.verdicts.values(), count.passed)
        lines.append(f"| [{paper}](#{paper.lower()}) | " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def listed(parts: list[str]) -> str:
    """ "a, b and c"."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]


def sentence(tallies: Mapping[str, Tally]) -> str:
    """The sums of the table in words."""
    total = sum(count.statements for count in tallies.values())
    sums = [
        f"{sum(count.verdicts[verdict] for count in tallies.values())} {verdict}"
        for verdict in VERDICTS
    ]
    papers = listed(list(tallies))
    return f"Verdicts on the printed form of {total} statements of {papers}: {', '.join(sums)}."


def covered(papers: Mapping[str, object]) -> str:
    """Which numbered statements have a row, paper by paper."""
    return " ".join(coverage(paper, checkers(paper)) for paper in papers)


def counts_line(paper: str) -> str:
    """How many entries a paper's errata have, by class."""
    by_class = counts(paper)
    return (
        f"{len(ERRATA[paper])} entries: " + ", ".join(f"{by_class[k]} {k}" for k in CLASSES) + "."
    )


def write(tallies: Mapping[str, Tally]) -> None:
    """Put the tallies and what follows from them into the pages."""
    text = replaced(TABLE.read_text(encoding="utf-8"), "verdicts", table(tallies))
    TABLE.write_text(replaced(text, "coverage", covered(tallies)), encoding="utf-8")
    for page in SENTENCES:
        text = page.read_text(encoding="utf-8")
        page.write_text(replaced(text, "verdicts", sentence(tallies)), encoding="utf-8")
    for paper, page in PAGES.items():
        text = page.read_text(encoding="utf-8")
        if between(text, "counts") is not None:
            page.write_text(replaced(text, "counts", counts_line(paper)), encoding="utf-8")


def main(arguments: list[str]) -> None:
    """Run the tables that are asked for and write the pages."""
    shown = recorded(TABLE.read_text(encoding="utf-8"))
    if "--counts" not in arguments:
        for paper in arguments or PAPERS:
            rows = theorem_table(paper)
            wrong = [row.statement for row in rows if not row.passed]
            if wrong:
                raise SystemExit(f"{paper}: {listed(wrong)} did not pass; nothing was written.")
            shown[paper] = tally(rows)
    write({paper: shown[paper] for paper in PAPERS if paper in shown})


if __name__ == "__main__":
    main(sys.argv[1:])
