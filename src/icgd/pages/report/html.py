"""One self-contained page about a run: opens offline, requests nothing, prints well.

The page is made from a result (the content of result.json) and nothing else, so it can be made
again from the file at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from icgd.base.atomic import write_bytes, write_text
from icgd.pages.report.again import again
from icgd.pages.report.drawing.draw import picture
from icgd.pages.report.page import flat_rows, rendered, stills
from icgd.pages.report.statements import statement_rows
from icgd.pages.report.stories.network import over
from icgd.pages.report.stories.numbers import number
from icgd.pages.report.stories.story import Story
from icgd.pages.report.stories.story import story as story

FILES = ("loss", "error", "path", "fit", "distance", "cost")
"""Figures that `icgd run` leaves beside the page; `icgd report --figures` draws all."""


def render_report(result: Mapping[str, Any], title: str | None = None) -> str:
    """The page as text.

    result  the content of result.json
    title   in place of the usual heading
    """
    about = story(result)
    return rendered(
        "report.html.j2",
        about.charts,
        stills(about.pictures()),
        title=title or about.title,
        result=result,
        story=about,
        over=over(result),
        difference=number(result["max_error"]),
        statements=statement_rows(result),
        command=again(result),
        config=flat_rows(result.get("config") or {}),
        versions=flat_rows(result.get("versions") or {}),
        notes=[*map(str, result.get("notes") or []), *missing(about)],
    )


def missing(about: Story) -> list[str]:
    """What a page says in place of curves that a result does not have."""
    if about.charts:
        return []
    return ["The result holds no curves, so there are no figures of them."]


def write_report(result: Mapping[str, Any], directory: Path) -> list[Path]:
    """Write report.html and its figures into an existing directory; gives back what was written."""
    written = []
    for chart in story(result).pictures():
        if chart.id in FILES:
            written.append(directory / f"{chart.id}.png")
            write_bytes(written[-1], picture(chart))
    page = directory / "report.html"
    write_text(page, render_report(result))
    return [*written, page]
