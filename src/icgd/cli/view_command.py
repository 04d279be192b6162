"""`icgd view`: look at a recorded run in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from icgd.base.atomic import finish_move
from icgd.cli.guard import one_line_errors
from icgd.cli.output import check_file_in_place
from icgd.errors import InvalidFile, InvalidParameter

FILES = {
    "report.html": "text/html; charset=utf-8",
    "result.json": "application/json",
    "trace.json": "application/json",
}
"""Files of a run that are served beside the viewer, where they are there."""


def view(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            show_default=False,
            help="Directory that icgd run --trace wrote, or a trace file.",
        ),
    ],
    html: Annotated[
        Path | None,
        typer.Option(
            help="Write the viewer to this file, which opens from disk, and serve nothing.",
            show_default=False,
        ),
    ] = None,
    port: Annotated[int, typer.Option(help="Port on this machine; 0 takes a free one.")] = 0,
) -> None:
    """Watch a recorded run: prompt, mask, gates, heads, errors, step by step.

    Serves the viewer on this machine only and prints its address; Ctrl-C ends it. Exit code 0: done;
    2: bad input.
    """
    with one_line_errors():
        trace = trace_of(run)
        if not 0 <= port < 2**16:
            raise InvalidParameter("--port", port, "be a number from 0 to 65535")
        if html is not None:
            if port:
                raise InvalidParameter("--port", port, "be left out with --html")
            if html.suffix.lower() not in (".html", ".htm"):
                raise InvalidParameter(
                    "--html", str(html), "end in .html", remedy="Other files are left alone."
                )
            check_file_in_place("--html", html)
            from icgd.pages.viewer import write_page

            write_page(trace, html)
            typer.echo(f"Viewer: {html}")
            return
        _serve(trace, port)


def trace_of(run: Path) -> Path:
    """The trace of a run, or how to record one."""
    if run.is_dir():
        finish_move(run)
        if (run / "trace.json").is_file():
            return run / "trace.json"
        raise InvalidFile(
            f"{run} holds no trace.json: the run was not recorded. Record it: icgd run ... --trace --out {run}."
        )
    if not run.is_file():
        raise InvalidFile(
            f"There is no run {run}. Pass a directory that icgd run --trace --out DIR wrote."
        )
    return run


def _serve(trace: Path, port: int) -> None:
    from icgd.pages.viewer import page, serve
    from icgd.transformer.trace import read_trace

    read_trace(trace)  # what is wrong with it is said here, before a browser is opened
    document = page(trace.read_text(encoding="utf-8")).encode()
    files = {"/": ("text/html; charset=utf-8", document)}
    for name, kind in FILES.items():
        beside = trace.parent / name
        if trace.name == "trace.json" and beside.is_file():
            files[f"/{name}"] = (kind, beside.read_bytes())
    with serve(files, port) as server:
        typer.echo(f"Viewer: {server.address} (this machine only; Ctrl-C ends it)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            typer.echo("")
