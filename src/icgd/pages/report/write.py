"""A report on disk: the page of one run, or of several compared, and figures for a paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icgd.base.atomic import staged_together
from icgd.errors import InvalidParameter
from icgd.pages.report.compare import comparison_pictures, render_comparison
from icgd.pages.report.drawing.draw import FORMATS, WIDTHS, paper, picture
from icgd.pages.report.html import render_report
from icgd.pages.report.results import Run, finite, read_runs
from icgd.pages.report.stories.story import story


@dataclass(frozen=True)
class PaperFigures:
    """Where figures for a paper go and how they look.

    width  inches at which a figure is printed; labels are 8 points there
    """

    directory: Path
    formats: tuple[str, ...] = ("png", "pdf")
    width: float = WIDTHS["single"]

    def check(self) -> None:
        """Refuse what cannot be drawn."""
        if not self.formats or not set(self.formats) <= set(FORMATS):
            raise InvalidParameter("formats", self.formats, f"be among {', '.join(FORMATS)}")
        if not 2.0 <= self.width <= 20.0:
            raise InvalidParameter("width", self.width, "be 2 to 20 inches")


def write_comparison(
    runs: Sequence[Path | Mapping[str, Any]],
    out: Path,
    *,
    figures: PaperFigures | None = None,
    title: str | None = None,
) -> list[Path]:
    """Write the page about one run or several, and figures; all files or none.

    runs     directories of `icgd run`, result.json files, or their contents; 1 to 8
    out      the page; its directory must exist
    figures  figures for a paper; their directory is made if missing
    title    the heading
    """
    if figures is not None:
        figures.check()
    compared = read_runs(runs)
    files = {out: rendered_page(compared, title).encode()}
    if figures is not None:
        drawn = paper_figures(compared, figures.formats, figures.width)
        files |= {figures.directory / name: content for name, content in drawn.items()}
    _write_all(files)
    return list(files)


def rendered_page(runs: Sequence[Run], title: str | None = None) -> str:
    """The page of one run, or of several compared."""
    title = None if title is None else str(finite(title))
    if len(runs) == 1:
        return render_report(runs[0].result, title=title)
    return render_comparison(runs, title)


def paper_figures(
    runs: Sequence[Run], formats: Sequence[str] = ("png", "pdf"), width: float = WIDTHS["single"]
) -> dict[str, bytes]:
    """Figures for a paper by file name; labels are 8 points at this width in inches."""
    charts = story(runs[0].result).pictures() if len(runs) == 1 else comparison_pictures(runs)
    look = paper(width)
    return {f"{c.id}.{format}": picture(c, look, format) for c in charts for format in formats}


def _write_all(files: Mapping[Path, bytes]) -> None:
    """Everything is on the disk before anything moves to its place."""
    directories = list(dict.fromkeys(path.parent for path in files))
    with staged_together(directories) as places:
        place_of = dict(zip(directories, places, strict=True))
        for path, content in files.items():
            (place_of[path.parent] / path.name).write_bytes(content)
