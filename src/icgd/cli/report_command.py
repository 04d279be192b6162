"""`icgd report`: one page about a run or several compared, and figures for a paper."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from icgd.base.atomic import finish_move
from icgd.cli.guard import one_line_errors
from icgd.cli.output import check_directory, check_file_in_place
from icgd.errors import InvalidFile, InvalidParameter

if TYPE_CHECKING:
    from icgd.pages.report import PaperFigures

FORMATS = ("png", "pdf", "svg")
WIDTHS = {"single": 3.4, "double": 7.0}
MOST_RUNS = 8
SMALLEST, LARGEST = 2.0, 20.0


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            show_default=False,
            help="Directories that icgd run wrote, or their result.json; one, or up to 8 to compare.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="The page, an .html file; RUN/report.html for one run and comparison.html here for several "
            "unless given.",
            show_default=False,
        ),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(
            help="Also draw the figures for a paper into this directory; made if missing.",
            show_default=False,
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            metavar="F,F,...",
            help="Of --figures: png (300 dpi), pdf (vector, fonts embedded), svg; png,pdf unless given.",
            show_default=False,
        ),
    ] = None,
    width: Annotated[
        str | None,
        typer.Option(
            help="Of --figures: single (a column, 3.4 in), double (both, 7 in), or inches; single unless "
            "given. Labels have 8 points at that width.",
            show_default=False,
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Heading.", show_default=False)] = None,
) -> None:
    """Make one HTML page about a run, or about several compared, from their result.json.

    Curves, errors with bounds, cost, the statements behind the runs, configuration, versions, and the
    commands to do them again. Nothing is trained. Exit code 0: done; 2: bad input.
    """
    with one_line_errors():
        run_report(ReportRequest(tuple(runs), out, figures, format, width, title))


@dataclass(frozen=True)
class ReportRequest:
    """What the command line asks for."""

    runs: tuple[Path, ...]
    out: Path | None = None
    figures: Path | None = None
    format: str | None = None
    width: str | None = None
    title: str | None = None

    def check(self) -> tuple[Path, tuple[str, ...], float]:
        """The page's place, formats and inches; complain before anything heavy is imported."""
        if self.figures is None:
            for option, value in (("--format", self.format), ("--width", self.width)):
                if value is not None:
                    raise InvalidParameter(option, value, "be left out without --figures")
        formats = tuple(f.strip().lower() for f in (self.format or "png,pdf").split(","))
        for format in formats:
            if format not in FORMATS:
                raise InvalidParameter("--format", format, f"be among {', '.join(FORMATS)}")
        if len(self.runs) <= MOST_RUNS:  # more are refused by their number
            for run in self.runs:
                _check_run(run)
        out = self.out or self._usual_place()
        if out.suffix.lower() not in (".html", ".htm"):
            raise InvalidParameter(
                "--out", str(out), "end in .html", remedy="For example --out report.html."
            )
        check_file_in_place("--out", out)
        if self.figures is not None:
            check_directory("--figures", self.figures)
        return out, tuple(dict.fromkeys(formats)), self._inches()

    def _usual_place(self) -> Path:
        if len(self.runs) > 1:
            return Path("comparison.html")
        run = self.runs[0]
        return (run if run.is_dir() else run.parent) / "report.html"

    def _inches(self) -> float:
        width = self.width or "single"
        try:
            inches = WIDTHS.get(width) or float(width)
        except ValueError:
            inches = 0.0
        if not SMALLEST <= inches <= LARGEST:
            raise InvalidParameter(
                "--width", width, f"be single, double, or {SMALLEST:g} to {LARGEST:g} inches"
            )
        return inches


def _check_run(run: Path) -> None:
    """A directory with a result, or a file."""
    wrote = "Pass a directory that icgd run wrote (its --out)."
    try:
        if run.is_dir():
            # A command that was killed while its files moved had finished its work.
            finish_move(run)
        if run.is_dir() and not (run / "result.json").is_file():
            raise InvalidFile(f"{run} has no result.json. {wrote}")
        if not run.exists():
            raise InvalidFile(f"No run {run}. {wrote}")
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidFile):
            raise
        raise InvalidFile(f"{run} cannot be read: {error}. Check the path.") from None


def run_report(request: ReportRequest) -> None:
    """Read, draw, write, say where."""
    out, formats, inches = request.check()
    from icgd.pages.report import PaperFigures, write_comparison

    figures: PaperFigures | None = None
    if request.figures is not None:
        figures = PaperFigures(request.figures, formats, inches)
    written = write_comparison(request.runs, out, figures=figures, title=request.title)
    typer.echo(f"Report: {out}")
    if request.figures is not None:
        typer.echo(f"Figures: {len(written) - 1} files in {request.figures}")
