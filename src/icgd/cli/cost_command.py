"""`icgd cost`: what the constructions cost on one network, as a table, a figure and a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from icgd.base.atomic import write_bytes
from icgd.base.construction import constructions
from icgd.cli.guard import one_line_errors
from icgd.cli.output import as_json, check_file_in_place, write_file
from icgd.errors import InvalidParameter

if TYPE_CHECKING:
    from rich.table import Table

    from icgd.costs import MethodCost

YARDSTICK = "sgd"


def cost(
    widths: Annotated[
        str, typer.Option(metavar="N,N,...", help="Input, hidden and output widths.")
    ] = "10,16,16,1",
    methods: Annotated[
        str,
        typer.Option(
            metavar="M,M,...",
            help="What to compare: cot (one layer and a chain of thought), stack (2N+4 layers a step), "
            "forward_mode (N layers a step), sgd (plain matrix products).",
        ),
    ] = "cot,stack,forward_mode,sgd",
    activation: Annotated[
        str, typer.Option(help="Of hidden layers: relu, tanh, sigmoid, softplus or gelu.")
    ] = "relu",
    output: Annotated[
        str, typer.Option(help="Output layer: linear or the name of the activation.")
    ] = "linear",
    bias: Annotated[bool, typer.Option("--bias/--no-bias", help="Biases in every layer.")] = True,
    steps: Annotated[int, typer.Option(help="Passes over the data.")] = 100,
    examples: Annotated[int, typer.Option(help="Rows of the data.")] = 20,
    error: Annotated[
        float | None,
        typer.Option(
            help="Wanted error of every fitted function and of every number that is read, on [-8, 8]; the "
            "fewest units or grid tokens that are certified for it are found.",
            show_default=False,
        ),
    ] = None,
    n_relu: Annotated[
        int | None,
        typer.Option(
            help="Units per fit of stack (256 unless given) and forward_mode (200); not with --error.",
            show_default=False,
        ),
    ] = None,
    attention: Annotated[
        str | None,
        typer.Option(
            help="Heads of forward_mode: relu, tanh or sigmoid; relu for ReLU networks and tanh else unless "
            "given.",
            show_default=False,
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw a figure into this PNG file.", show_default=False)
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option(help="Also write the numbers to this JSON file.", show_default=False),
    ] = None,
    program: Annotated[
        Path | None,
        typer.Option(
            help="Count the parts of the program in this directory instead, whatever its construction.",
            show_default=False,
        ),
    ] = None,
    listed: Annotated[
        bool, typer.Option("--list", help="List every construction, plug-ins included, and stop.")
    ] = False,
) -> None:
    """Count what training a network costs by each construction, under four cost models.

    Layers, heads, parameters, memory, operations, and what the papers leave out. Nothing is trained.
    Exit code 0: done; 2: bad input.
    """
    with one_line_errors():
        if listed:
            list_constructions()
            return
        if program is not None:
            run_program_cost(program, examples, json)
            return
        run_cost(
            CostRequest(
                widths,
                methods,
                activation,
                output,
                bias,
                steps,
                examples,
                error,
                n_relu,
                attention,
                plot,
                json,
            )
        )


def counted_methods() -> tuple[str, ...]:
    """Methods whose cost is counted, and plain SGD."""
    every = constructions().values()
    return (*(c.method for c in every if c.method is not None and c.cost is not None), YARDSTICK)


@dataclass(frozen=True)
class CostRequest:
    """What the command line asks for."""

    widths: str
    methods: str
    activation: str
    output: str
    bias: bool
    steps: int
    examples: int
    error: float | None
    n_relu: int | None
    attention: str | None
    plot: Path | None
    json: Path | None

    def check(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """Widths and methods; complain about what can never work before torch is imported."""
        try:
            widths = tuple(int(w) for w in self.widths.split(","))
        except ValueError:
            widths = ()
        if len(widths) < 2 or min(widths) < 1:
            raise InvalidParameter(
                "--widths",
                self.widths,
                "be at least two integers >= 1 separated by commas",
                remedy="Input, hidden and output width, for example 10,16,16,1.",
            )
        methods = tuple(m.strip() for m in self.methods.split(","))
        counted = counted_methods()
        for method in methods:
            if method not in counted:
                raise InvalidParameter("--methods", method, f"be among {', '.join(counted)}")
        if self.examples < 1:
            raise InvalidParameter("--examples", self.examples, "be an integer >= 1")
        if len(set(methods)) < len(methods):
            raise InvalidParameter("--methods", self.methods, "name every method once")
        for option, path in (("--plot", self.plot), ("--json", self.json)):
            if path is not None:
                check_file_in_place(option, path)
        return widths, methods


def run_cost(request: CostRequest) -> None:
    """Compute, print, write."""
    widths, methods = request.check()
    from rich.console import Console

    import icgd

    net = icgd.Network(widths, request.activation, request.output, request.bias)
    fitted = {c.method: c.switches for c in constructions().values() if c.method is not None}
    costs = []
    for method in methods:
        names = {"n_relu", "attention"} & set(fitted.get(method, ()))
        chosen: dict[str, Any] = {name: getattr(request, name) for name in names}
        costs.append(
            icgd.cost(
                net,
                method,
                steps=request.steps,
                n_examples=request.examples,
                error=request.error,
                **chosen,
            )
        )
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=140)
    console.print(cost_table(costs))
    console.print(left_out_table(costs))
    for cost in costs:
        for note in cost.notes:
            console.print(f"{cost.method}: {note}", markup=False)
    if request.plot is not None:
        from icgd.pages.report.drawing.cost_figures import cost_bars

        write_bytes(request.plot, cost_bars([cost.to_dict() for cost in costs]))
    if request.json is not None:
        write_file(request.json, as_json({cost.method: cost.to_dict() for cost in costs}))


def list_constructions() -> None:
    """Name, method, problem and optimizer of every construction; loads nothing heavy of the package's own."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Constructions", title_justify="left")
    for name in ("name", "method", "problem", "optimizer", "what it is", "statement"):
        table.add_column(name, overflow="fold")
    for c in constructions().values():
        kinds = (_kind_names(c.problem), _kind_names(c.optimizer))
        table.add_row(c.name, c.method or "", *kinds, c.summary, c.statement.replace("[", "\\["))
    console = Console(highlight=False)
    (console if console.is_terminal else Console(highlight=False, width=160)).print(table)


def _kind_names(kinds: Any) -> str:
    listed = kinds if isinstance(kinds, tuple) else (kinds,)
    return ", ".join(k.rpartition(":")[2] if isinstance(k, str) else k.__name__ for k in listed)


def run_program_cost(directory: Path, examples: int, json: Path | None) -> None:
    """Load, count, print, write."""
    if examples < 1:
        raise InvalidParameter("--examples", examples, "be an integer >= 1")
    if json is not None:
        check_file_in_place("--json", json)
    from rich.console import Console
    from rich.table import Table

    import icgd

    counted = icgd.cost(icgd.Program.from_pretrained(directory), n_examples=examples).to_dict()
    table = Table(title=f"icgd cost: {counted['construction']}", title_justify="left")
    table.add_column("what")
    table.add_column("value", overflow="fold")
    for name, value in counted.items():
        text = ", ".join(value) if isinstance(value, tuple) else shown(value)
        table.add_row(name, text.replace("[", "\\["))
    Console(highlight=False).print(table)
    if json is not None:
        write_file(json, as_json(counted))


def cost_table(costs: list[MethodCost]) -> Table:
    """One column per method."""
    from rich.table import Table

    first = costs[0]
    table = Table(
        title=f"icgd cost: widths {','.join(map(str, first.widths))}, {first.activation}, "
        f"{first.n_examples} examples, {first.steps} passes",
        title_justify="left",
    )
    table.add_column("what")
    for cost in costs:
        table.add_column(cost.method, justify="right")

    def row(name: str, *values: Any) -> None:
        table.add_row(name, *[shown(value) for value in values])

    row("layers of a step", *[c.layers for c in costs])
    row("heads of all sublayers", *[None if c.heads is None else sum(c.heads) for c in costs])
    row("  of the largest", *[None if c.heads is None else max(c.heads, default=0) for c in costs])
    row("feed-forward units", *[None if c.hidden is None else sum(c.hidden) for c in costs])
    row("token width", *[c.d_token for c in costs])
    row("units or grid tokens", *[", ".join(f"{k} {v}" for k, v in c.sizes.items()) for c in costs])
    row("error promised", *[c.certified for c in costs])
    row("parameters", *[c.parameters for c in costs])
    row("  not zero", *[c.nonzeros for c in costs])
    row("memory of the weights, bytes", *[c.memory_bytes["dense"] for c in costs])
    row("memory of the tokens, bytes", *[c.state_bytes for c in costs])
    table.add_section()
    titles = {
        "dense": "dense, D x D heads",
        "linear": "linear in D",
        "nonzeros": "non-zeros",
        "structured": "as this package runs it",
    }
    for unit in ("example", "pass"):
        for model, title in titles.items():
            values = [getattr(c, f"flops_per_{unit}")[model] for c in costs]
            row(f"operations per {unit}: {title}", *values)
    table.add_section()
    row("updates per pass", *[c.updates_per_pass for c in costs])
    row("sublayers in sequence per pass", *[c.serial_per_pass for c in costs])
    return table


def left_out_table(costs: list[MethodCost]) -> Table:
    """What the papers leave out, and copies they could do without."""
    from rich.table import Table

    table = Table(title="Beside the operations of the layers", title_justify="left")
    for name in ("method", "what", "per example", "in all", "unit", "note"):
        table.add_column(
            name, overflow="fold", justify="right" if name in ("per example", "in all") else "left"
        )
    for cost in costs:
        for part in cost.left_out:
            each = shown(part.per_example) if part.per_example else ""
            table.add_row(cost.method, part.name, each, shown(part.total), part.unit, part.note)
    return table


def shown(value: Any) -> str:
    """A number for a table.

    >>> shown(1234), shown(1.234e9), shown(None), shown(2e7)
    ('1,234', '1.23e+09', 'not reached', '2.00e+07')
    """
    if value is None:
        return "not reached"
    if isinstance(value, str):
        return value
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.2e}"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.3g}"
