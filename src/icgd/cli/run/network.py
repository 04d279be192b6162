"""`icgd run`: train a network on a table inside a frozen transformer, and say how exact it was."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import typer

import icgd
from icgd.base.atomic import staged
from icgd.base.construction import Construction, by_method
from icgd.cli.output import as_json, finite, holding_out
from icgd.cli.run.curves import LossCurve, error_curve, mean_loss
from icgd.cli.run.recording import DROPPED, Recording, add_trace, recorded, summary
from icgd.cli.run.settings import Settings, chosen_targets, hidden_widths
from icgd.cli.tables import Array, Table, load_example, make_table, read_csv
from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.oracle.sgd import torch_network
from icgd.problems import Weights
from icgd.transformer.nn.stack.stack import Stack
from icgd.transformer.program.blueprint import DTYPES
from icgd.verification.cot_network import Check
from icgd.verification.stacks import StackCheck

if TYPE_CHECKING:
    from icgd.transformer.program import Program, Run

FORMAT = "icgd-result/1"
WIDE = 256
"""Below this width a second thread costs more in waiting than it saves in work."""


@contextmanager
def fitting_threads(network: icgd.Network) -> Iterator[None]:
    """One thread for small matrices; PyTorch's own choice for large ones."""
    before = torch.get_num_threads()
    if max(network.widths) < WIDE:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def load_table(
    data: Path | None,
    example: str | None,
    targets: tuple[str, ...],
    *,
    standardize: bool,
    standardize_target: bool | None = None,
) -> Table:
    """The table of a CSV file or a bundled example."""
    if data is None:
        frame, default = load_example(example or "")
        wanted, source = list(targets) or default, f"the {example} data"
    else:
        frame, wanted, source = read_csv(data), list(targets), str(data)
    names = chosen_targets(wanted, [str(name) for name in frame.columns], source)
    return make_table(frame, names, standardize=standardize, standardize_target=standardize_target)


@holding_out
def run(settings: Settings) -> dict[str, Any]:
    """Do the whole job and write the results; gives back the content of result.json."""
    table = load_table(
        settings.data, settings.example, settings.target, standardize=settings.standardize
    )
    network = icgd.Network(
        (table.X.shape[1], *hidden_widths(settings.widths), table.Y.shape[1]),
        activation=settings.activation,
        output=settings.output,
        bias=settings.bias,
    )
    program = compiled(settings, network)
    with fitting_threads(network):
        measured, weights, recording = _train(settings, program, network, table)
    result = finite(
        {
            **measured,
            "command": settings.command(),
            "config": configuration(settings, program, table),
            "versions": versions(),
        }
    )
    write_result(settings.out, result, named_weights(weights), table, recording)
    return result


def compiled(settings: Settings, network: icgd.Network) -> Program:
    """The program the options ask for."""
    chosen = by_method(settings.method)
    kind = chosen.load("options")
    named = {name: getattr(settings, name, None) for name in chosen.option_names()}
    return icgd.compile(
        network,
        _optimizer(settings, chosen),
        None if kind is None else kind(**named),
        method=settings.method,
        dtype=DTYPES[settings.dtype],
    )


def _optimizer(settings: Settings, chosen: Construction) -> Any:
    """The optimizer of a method, of which the command line knows the step size and the box."""
    named = {"lr": settings.lr or (0.01 if chosen.rounds == "epochs" else 0.1)}
    if settings.box is not None:
        named["box"] = settings.box
    kind = chosen.types("optimizer")[0]
    try:
        return kind(**named)
    except TypeError as error:
        raise InvalidParameter(
            "--method",
            settings.method,
            f"have an optimizer that {' and '.join(f'--{name}' for name in named)} describe",
            remedy=f"{kind.__name__} says: {error}. Compile it in Python.",
        ) from error


def rounds_of(settings: Settings) -> dict[str, int]:
    """How long to train: passes of SGD over the rows, or steps of GD on all of them."""
    if by_method(settings.method).rounds == "epochs":
        return {"epochs": settings.epochs}
    return {"steps": settings.steps or 50}


def _train(
    settings: Settings, program: Program, network: icgd.Network, table: Table
) -> tuple[dict[str, Any], Weights, Recording]:
    """Train in context under the verifier's eyes; the same run gives curves and the recording."""
    rounds = rounds_of(settings)
    n_rounds = rounds.get("steps", rounds.get("epochs", 1) * len(table.X))
    how = f"{n_rounds:,} rounds of {len(program.mask.steps())} layer calls"
    if isinstance(program.step, Stack):
        how = f"{n_rounds:,} steps of {program.step.n_layers} layers on all rows"
    typer.echo(
        f"{len(table.X):,} rows, widths {'-'.join(map(str, network.widths))}, {how}, each "
        "checked against torch.optim.SGD",
        err=True,
    )
    init = network.init(seed=settings.seed, dtype=program.dtype)
    started = time.perf_counter()
    x = torch.as_tensor(table.X).to(program.dtype)
    y = torch.as_tensor(table.Y).to(program.dtype)

    def work(recorder: icgd.Recorder | None) -> tuple[icgd.Verdict, LossCurve]:
        losses = LossCurve(network.spec, x, y, init, n_rounds)
        check = icgd.verify(
            program,
            table.X,
            table.Y,
            init=init,
            executor=settings.executor,  # type: ignore[arg-type]
            progress=True,
            observe=losses,
            recorder=recorder,
            **rounds,
        )
        return check, losses

    (check, losses), recording = recorded(settings, program, table.X, table.Y, work, init=init)
    if check.run is None:
        raise AssumptionViolated(
            " ".join(check.notes)
            + " The compiled program fails its own probes: please report this."
        )
    if not isinstance(check, (Check, StackCheck)):
        raise InvalidParameter(
            "--method",
            settings.method,
            "have a verifier that compares networks (icgd.verification.stacks.verify_stack, say)",
            remedy=f"Its own gives {type(check).__name__}; call icgd.verify in Python.",
        )
    measured = _measured(check.run, check, table, init, losses)
    seconds = time.perf_counter() - started
    return {**measured, "seconds": seconds}, check.run.weights, recording


def _measured(
    run: Run, check: Check | StackCheck, table: Table, init: Weights, losses: LossCurve
) -> dict[str, Any]:
    """Every number of the result that was measured or bounded."""
    program = run.program
    spec = program.problem.spec
    x = torch.as_tensor(table.X).to(program.dtype)
    y = torch.as_tensor(table.Y).to(program.dtype)
    predicted = run.predict(x).to(torch.float64).numpy()
    with torch.no_grad():
        by_sgd = torch_network(spec, check.sgd_weights)(x).to(torch.float64).numpy()
    count, first = check.near_kink.count, check.near_kink.first
    return {
        "format": FORMAT,
        "method": program.construction.method,
        "passed": bool(check.passed),
        **{
            name: float(getattr(check, name))
            for name in (
                "max_error",
                "max_round_error",
                "round_bound",
                "global_bound",
                "paper_bound",
            )
        },
        # NaN is above every bound.
        "rounds_over_bound": sum(not r.round_error <= r.round_bound for r in check.rounds),
        **run.cost.as_dict(),
        "loss_before": mean_loss(spec, init, x, y),
        "loss_after": mean_loss(spec, run.weights, x, y),
        "loss_after_sgd": mean_loss(spec, check.sgd_weights, x, y),
        "r2_transformer": r_squared(table.Y, predicted),
        "r2_sgd": r_squared(table.Y, by_sgd),
        "range_use": float(run.range_use),
        "radius": program.radius,
        "head_error": program.certificate.sup_error,
        "near_kink": {"count": count, "first": None if first is None else list(first)},
        "notes": [*map(str, check.notes), *table.notes],
        "curves": {"loss": losses.values(), "error": error_curve(check.rounds)},
    }


def r_squared(y: Array, predicted: Array) -> float | None:
    """1 - SS_res / SS_tot, averaged over the targets; None if a target is constant."""
    if (y == y[0]).all(axis=0).any():  # the mean of equal numbers may differ from them by rounding
        return None
    total = ((y - y.mean(axis=0)) ** 2).sum(axis=0)
    return float((1 - ((y - predicted) ** 2).sum(axis=0) / total).mean())


def configuration(settings: Settings, program: Program, table: Table) -> dict[str, Any]:
    """All that is needed to do the same run again, defaults filled in."""
    return {
        "data": str(settings.data) if settings.data else f"example:{settings.example}",
        "table": table.digest,
        "rows": len(table.X),
        "features": list(table.features.names),
        "targets": list(table.targets.names),
        **rounds_of(settings),
        "seed": settings.seed,
        "standardize": settings.standardize,
        "executor": settings.executor,
        **{key: program.config[key] for key in ("construction", "problem", "optimizer", "options")},
        "dtype": settings.dtype,
    }


def versions() -> dict[str, str]:
    """Versions of everything that could change a number."""
    packages = ("torch", "numpy", "pandas", "scikit-learn")
    return {
        "icgd": icgd.__version__,
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in packages},
    }


def named_weights(weights: Weights) -> dict[str, torch.Tensor]:
    """layer1.weight, layer1.bias, layer2.weight, ..."""
    named = {}
    for i, (W, b) in enumerate(weights, 1):
        named[f"layer{i}.weight"] = W.detach().contiguous()
        if b is not None:
            named[f"layer{i}.bias"] = b.detach().contiguous()
    return named


def write_result(
    out: Path,
    result: dict[str, Any],
    tensors: dict[str, torch.Tensor],
    table: Table,
    recording: Recording,
) -> None:
    """result.json, weights.safetensors, the report and a recording, all or nothing.

    A recording that fails or is interrupted takes nothing else with it.
    """
    try:
        trace = recording.trace()
    except BaseException:
        _write(out, result, tensors, table, None)
        raise
    _write(out, result, tensors, table, trace)


def _write(
    out: Path,
    result: dict[str, Any],
    tensors: dict[str, torch.Tensor],
    table: Table,
    trace: icgd.Trace | None,
) -> None:
    from icgd.base.atomic.tensors import tensor_bytes
    from icgd.pages.report import write_report

    result.update(summary(trace))
    scales = {"features": table.features.to_dict(), "targets": table.targets.to_dict()}
    full = {**result, "standardization": finite(scales)}
    # A recording of an earlier run would tell another story.
    with staged(out, remove=DROPPED if trace is None else ()) as directory:
        (directory / "result.json").write_text(as_json(full) + "\n", encoding="utf-8")
        metadata = {"format": "pt", "standardization": as_json(scales)}
        (directory / "weights.safetensors").write_bytes(tensor_bytes(tensors, metadata))
        write_report(result, directory)
        if trace is not None:
            add_trace(trace, directory)
