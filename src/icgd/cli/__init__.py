"""The command line: `icgd run`, `compile`, `verify`, `view`, `report`, `bench`, `cost`, `train`, `eval`,
`sweep`, `reproduce`.

Only typer is imported here; everything heavy is imported inside the commands, so that help is
instant.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from icgd.base.plugins import load_plugin
from icgd.cli.bench_command import bench_cot, bench_linear_models, bench_machine
from icgd.cli.cost_command import cost
from icgd.cli.guard import (
    FAILED,
    INTERRUPTED,
    OneLineGroup,
    leave,
    one_line_errors,
    one_line_warnings,
)
from icgd.cli.options import (
    BatchOption,
    DataOption,
    EpochsOption,
    ExecutorOption,
    SeedOption,
    StandardizeOption,
    TargetsOption,
)
from icgd.cli.report_command import report
from icgd.cli.reproduce_command import reproduce
from icgd.cli.run.compile_command import compile_recipe, run_compiled, the_table
from icgd.cli.train_command import bench_train, evaluate, sweep, train
from icgd.cli.verify_command import verify
from icgd.cli.view_command import view

app = typer.Typer(
    name="icgd",
    cls=OneLineGroup,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Compile (model, optimizer) into a frozen transformer that trains the model inside its own "
    "context, run it, and hold it against torch.optim.SGD.",
)
bench = typer.Typer(
    cls=OneLineGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Measure speed and cost on this machine.",
)
app.add_typer(bench, name="bench")


def _version(wanted: bool) -> None:
    if wanted:
        from icgd import __version__

        typer.echo(f"icgd {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    plugin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE",
            help="Import this module, or file *.py, first: it registers constructions (icgd.register). May be "
            "given several times.",
            show_default=False,
        ),
    ] = None,
) -> None:
    for name in plugin or []:
        with one_line_errors():
            load_plugin(name)


@app.command()
def run(
    data: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DATA.csv]",
            show_default=False,
            help="CSV file with a header; every cell a finite number, none missing.",
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
    data_file: DataOption = None,
    target: TargetsOption = None,
    program: Annotated[
        Path | None,
        typer.Option(
            help="Run the program in this directory, which icgd compile wrote, instead of compiling a network; "
            "on the table it was compiled for unless another is given.",
            show_default=False,
        ),
    ] = None,
    batch_size: BatchOption = None,
    shuffle: Annotated[
        int | None,
        typer.Option(
            help="With --program: seed of another order of the rows in every epoch; file order unless given.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            help="What to fit: network; a linear model by (proximal) gradient descent: ridge, lasso, "
            "logistic, poisson; or linear, least squares by a looped transformer (--optimizer)."
        ),
    ] = "network",
    optimizer: Annotated[
        str,
        typer.Option(
            help="Of --model linear: gd, newton, or preconditioned (gd after 10 steps of Newton's iteration, "
            "which are its preconditioner); the report shows all three."
        ),
    ] = "gd",
    lam: Annotated[
        float,
        typer.Option(
            help="Penalty of a linear model: lam/2 |w|^2, or lam |w|_1 for the lasso, beside the mean loss."
        ),
    ] = 0.1,
    steps: Annotated[
        int | None,
        typer.Option(
            help="Gradient steps: of a linear model (1000 unless given), of --method stack and forward_mode "
            "(50), or loops of --model linear (100 of gd, 30 of newton, 20 of preconditioned).",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            help="How a network is trained: cot (one layer and a chain of thought, SGD, one row a round), "
            "stack (2N+4 layers a step, backpropagation, gradient descent on all rows), forward_mode (N "
            "layers a step, derivatives carried forward, gradient descent on all rows)."
        ),
    ] = "cot",
    activation: Annotated[
        str,
        typer.Option(
            help="Of hidden layers: relu; for stack and forward_mode also tanh, sigmoid, softplus, gelu."
        ),
    ] = "relu",
    attention: Annotated[
        str | None,
        typer.Option(
            help="Heads of forward_mode: relu, tanh or sigmoid; relu for ReLU networks and tanh else unless "
            "given.",
            show_default=False,
        ),
    ] = None,
    n_relu: Annotated[
        int | None,
        typer.Option(
            help="Units of every fitted function of stack (256) and forward_mode (200); exact functions such "
            "as ReLU need one or two.",
            show_default=False,
        ),
    ] = None,
    box: Annotated[
        float | None,
        typer.Option(
            help="Keep every weight of stack and forward_mode in [-box, box].", show_default=False
        ),
    ] = None,
    signal_radius: Annotated[
        float | None,
        typer.Option(
            help="Range of derivatives in forward_mode: 8, for ReLU networks 16, unless given.",
            show_default=False,
        ),
    ] = None,
    widths: Annotated[
        str,
        typer.Option(
            metavar="N,N,...", help="Hidden widths, separated by commas; none for no hidden layer."
        ),
    ] = "16,16",
    lr: Annotated[
        float | None,
        typer.Option(
            help="Learning rate: of SGD on the loss 1/2 |output - y|^2 of one row (0.01 unless given), of "
            "gradient descent on its mean over all rows (0.1), or on a linear model (1/beta from the data).",
            show_default=False,
        ),
    ] = None,
    epochs: EpochsOption = 3,
    standardize: StandardizeOption = True,
    seed: SeedOption = 0,
    out: Annotated[
        Path,
        typer.Option(
            help="Directory for result.json, weights.safetensors, report.html and figures; made if missing, "
            "other files in it are kept."
        ),
    ] = Path("runs/latest"),
    trace: Annotated[
        bool,
        typer.Option(
            "--trace",
            help="Record what happens inside the layer, round by round beside the exact optimizer: trace.json, "
            "and viewer.html to look at it (icgd view).",
        ),
    ] = False,
    trace_budget: Annotated[
        float | None,
        typer.Option(
            metavar="MB",
            help="Of --trace: size of trace.json, 14 unless given; as many rounds as fit are kept in detail.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        str, typer.Option(help="Output layer: linear, or the name of the activation.")
    ] = "linear",
    bias: Annotated[bool, typer.Option("--bias/--no-bias", help="Biases in every layer.")] = True,
    temperature: Annotated[
        str,
        typer.Option(
            help="spectral (exact to rounding) or hard (the paper's nearest grid token: error about "
            "radius / n-grid, so give a small --radius such as 8 with it)."
        ),
    ] = "spectral",
    n_grid: Annotated[
        int | None,
        typer.Option(
            help="Grid tokens per head; 32 for networks unless given.", show_default=False
        ),
    ] = None,
    rho: Annotated[
        float | None,
        typer.Option(
            help="Kernel width in grid spacings; 1.4 unless given.",
            show_default=False,
        ),
    ] = None,
    radius: Annotated[
        float | None,
        typer.Option(
            help="Certified range |s| <= radius of every activation and error signal, in the units the network "
            "sees; 1024 in float64 and 128 in float32 unless given. For stack (32 unless given; 8 where the "
            "loss is fitted) and forward_mode (8): of pre-activations, where the activation is fitted.",
            show_default=False,
        ),
    ] = None,
    dtype: Annotated[str, typer.Option(help="float64 or float32.")] = "float64",
    executor: ExecutorOption = "structured",
) -> None:
    """Train a network or fit a linear model on a table inside a frozen transformer; run what was compiled.

    Prints losses, R2, the largest difference to SGD's weights, three bounds and the cost, and writes
    them with an HTML report. Times are in seconds. Exit code 0: every check held; 1: one did not;
    2: bad input.
    """
    with one_line_errors():
        from icgd.cli.run.settings import Settings

        data = the_table(data, data_file)
        settings = Settings(
            out=out,
            data=data,
            example=example,
            target=tuple(target or ()),
            model=model,
            lam=lam,
            steps=steps,
            optimizer=optimizer,
            method=method,
            activation=activation,
            attention=attention,
            n_relu=n_relu,
            box=box,
            signal_radius=signal_radius,
            widths=widths,
            lr=lr,
            epochs=epochs,
            standardize=standardize,
            seed=seed,
            output=output,
            bias=bias,
            temperature=temperature,
            n_grid=n_grid,
            rho=rho,
            radius=radius,
            dtype=dtype,
            executor=executor,
            trace=trace,
            trace_budget=trace_budget,
        )
        if run_compiled(program, settings, batch_size, shuffle):
            return
        settings.check()
        from icgd.cli.run.least_squares import run_least_squares
        from icgd.cli.run.linear_model import run_linear_model
        from icgd.cli.run.network import run as run_network
        from icgd.cli.run.summary import show

        job = {"network": run_network, "linear": run_least_squares}.get(model, run_linear_model)
        result = job(settings)
        show(result, out)
    if not result["passed"]:
        raise typer.Exit(FAILED)


bench.command("cot")(bench_cot)
bench.command("linear-models")(bench_linear_models)
bench.command("statistics", hidden=True)(bench_linear_models)  # its name before
bench.command("machine")(bench_machine)
bench.command("train")(bench_train)
app.command("compile")(compile_recipe)
app.command()(verify)
app.command()(view)
app.command()(report)
app.command()(cost)
app.command()(train)
app.command("eval")(evaluate)
app.command()(sweep)
app.command()(reproduce)


def main() -> None:
    """Entry point of the `icgd` command."""
    one_line_warnings()
    try:
        app()
    except KeyboardInterrupt:  # outside of a command, for example while torch is imported
        try:
            leave("interrupted; nothing was written.", INTERRUPTED)
        except typer.Exit as end:
            raise SystemExit(end.exit_code) from None
