"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

JsonOption = Annotated[
    Path | None,
    typer.Option(help="Also write the numbers to this JSON file.", show_default=False),
]
TargetsOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Column to predict; repeat the option or separate by commas for several. All other columns are "
        "features.",
        show_default=False,
        metavar="COLUMN",
    ),
]
StandardizeOption = Annotated[
    bool,
    typer.Option(
        help="Replace every feature and target by its z-score; a constant column becomes 0. Without it values "
        "must fit the certified range (--radius)."
    ),
]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data", help="The CSV file, where it is not the first argument.", show_default=False
    ),
]
BatchOption = Annotated[
    int | None,
    typer.Option(
        help="With --program of icgd compile: rows of a batch; the one compiled for unless given.",
        show_default=False,
    ),
]
EpochsOption = Annotated[
    int, typer.Option(help="Passes over the rows; one round per row and pass, in file order.")
]
SeedOption = Annotated[int, typer.Option(help="Seed of the initial weights (He initialisation).")]
ExecutorOption = Annotated[
    str,
    typer.Option(
        help="structured (fast), dense (literal matrices, widths up to about 24, far slower) or, for stacks, "
        "sparse (index arrays over all pairs of tokens); the same function."
    ),
]
