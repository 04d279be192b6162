"""The result of a run as a table on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from icgd.pages.report.html import story


def result_table(result: Mapping[str, Any]) -> Table:
    """Everything a user wants to know at a glance, in three groups."""
    verdict = "passed" if result["passed"] else "NOT PASSED"
    table = Table(title=f"icgd run: {verdict}", title_justify="left", show_header=False)
    table.add_column("what", overflow="fold")
    table.add_column("value", justify="right", no_wrap=True)
    page = story(result)
    for name, value in page.rows:
        table.add_row(name, value)
    table.add_section()
    for bound in page.bounds:
        title = bound["title"]
        table.add_row(f"Bound: {title[0].lower()}{title[1:]}", bound["value"])
    table.add_section()
    for name, value in page.cost:
        table.add_row(name, value)
    return table


def show(result: Mapping[str, Any], out: Path) -> None:
    """Print the table, the notes and where to look next."""
    console = Console(highlight=False)
    if not console.is_terminal:
        # In a pipe or a log there is no width to respect: let no line be folded.
        console = Console(highlight=False, width=100)
    console.print(result_table(result))
    for note in result["notes"]:
        console.print(f"Note: {note}", markup=False)
    console.print(f"Report: {out / 'report.html'}", markup=False, soft_wrap=True)
    if (out / "viewer.html").is_file():
        console.print(f"Viewer: {out / 'viewer.html'}", markup=False, soft_wrap=True)
