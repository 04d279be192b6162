"""`icgd compile`: a recipe and a table become a program in a directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from icgd.cli.guard import one_line_errors
from icgd.cli.options import StandardizeOption, TargetsOption
from icgd.cli.output import check_directory
from icgd.cli.run.settings import EXAMPLES, Settings, check_targets
from icgd.errors import InvalidParameter


def compile_recipe(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE",
            show_default=False,
            help="FILE.py:FUNCTION or MODULE:FUNCTION. The function takes no arguments and returns (model, "
            "loss, optimizer), a dict with these keys, or what icgd.trace gives for a loop body of your own. "
            "The model is in float64.",
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            help="CSV file with a header; every cell a finite number, none missing.",
            show_default=False,
        ),
    ] = None,
    example: Annotated[
        str | None,
        typer.Option(
            help="Bundled data instead of a file: diabetes (442 rows, 10 features), breast_cancer (569 rows, "
            "30 features, two classes).",
            show_default=False,
        ),
    ] = None,
    target: TargetsOption = None,
    classify: Annotated[
        bool,
        typer.Option(
            "--classify",
            help="The target is a class: its distinct values, in order, become the indices 0, 1, .. that "
            "cross-entropy takes. Without it targets are numbers, one row of them per example.",
        ),
    ] = False,
    standardize: StandardizeOption = True,
    batch_size: Annotated[
        int,
        typer.Option(
            help="Rows of a batch. The smaller batch that ends a pass over the table is compiled as well."
        ),
    ] = 32,
    heads: Annotated[
        str | None,
        typer.Option(
            help="fixed: products read numbers up to --radius; float: numbers of any size, with a relative "
            "error. Chosen by the program unless given.",
            show_default=False,
        ),
    ] = None,
    radius: Annotated[
        float | None,
        typer.Option(
            help="Largest number a product reads with fixed heads; 64 unless given.",
            show_default=False,
        ),
    ] = None,
    kernels: Annotated[
        str,
        typer.Option(
            help="How heads are evaluated: cpp (compiled on first use), torch, or auto, which is cpp where "
            "there is a compiler."
        ),
    ] = "auto",
    out: Annotated[
        Path,
        typer.Option(
            help="Directory for the program, initial weights and the settings of the data; made if missing."
        ),
    ] = Path("runs/program"),
) -> None:
    """Compile model, loss and optimizer of your own into one frozen layer, for rows like those of a table.

    Prints what a round takes. Afterwards: icgd run --program OUT, icgd verify --program OUT --recipe RECIPE.
    Exit code 0: done; 2: bad input, and nothing was written.
    """
    with one_line_errors():
        request = CompileRequest(
            recipe,
            data,
            example,
            tuple(target or ()),
            classify,
            standardize,
            batch_size,
            heads,
            radius,
            kernels,
            out,
        )
        request.check()
        from icgd.cli.run.compiled import compile_to

        compile_to(request)


@dataclass(frozen=True)
class CompileRequest:
    """What the command line asks for."""

    recipe: str
    data: Path | None
    example: str | None
    target: tuple[str, ...]
    classify: bool
    standardize: bool
    batch_size: int
    heads: str | None
    radius: float | None
    kernels: str
    out: Path

    def check(self) -> None:
        """Refuse what can never work, before torch is imported."""
        check_source(self.data, self.example)
        if self.data is not None:
            check_targets(self.data, self.target)
        check_batch(self.batch_size)
        if self.heads not in (None, "fixed", "float"):
            raise InvalidParameter("--heads", self.heads, "be fixed or float")
        if self.kernels not in ("auto", "cpp", "torch"):
            raise InvalidParameter("--kernels", self.kernels, "be auto, cpp or torch")
        check_directory("--out", self.out)


def the_table(argument: Path | None, option: Path | None) -> Path | None:
    """DATA as an argument or as --data."""
    if argument is not None and option is not None:
        raise InvalidParameter("--data", str(option), "be left out where DATA is given")
    return argument or option


def run_compiled(
    program: Path | None, settings: Settings, batch_size: int | None, shuffle: int | None
) -> bool:
    """Run what `icgd compile` wrote, if that is what is asked for."""
    if program is None:
        for option, value in (("--batch-size", batch_size), ("--shuffle", shuffle)):
            if value is not None:
                raise InvalidParameter(option, value, "be left out without --program")
        return False
    settings.check_compiled(shuffle)
    check_batch(batch_size)
    from icgd.cli.run.machine import MachineRequest, run_program

    kept = (settings.data, settings.target, settings.epochs)
    run_program(
        MachineRequest(program, *kept, batch_size, shuffle, settings.executor, settings.out)
    )
    return True


def check_batch(batch_size: int | None) -> None:
    """At least one row."""
    if batch_size is not None and batch_size < 1:
        raise InvalidParameter("--batch-size", batch_size, "be an integer >= 1")


def check_source(data: Path | None, example: str | None) -> None:
    """One table, and one that exists by name."""
    if (data is None) == (example is None):
        raise InvalidParameter(
            "--data",
            None if data is None else str(data),
            "be given, or --example, but not both",
            remedy=f"Bundled examples are {' and '.join(EXAMPLES)}.",
        )
    if example is not None and example not in EXAMPLES:
        raise InvalidParameter("--example", example, f"be one of {', '.join(EXAMPLES)}")
