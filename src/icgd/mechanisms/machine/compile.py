"""(training step | function) -> Program: capture it, select instructions, write the layer for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from icgd.errors import InvalidParameter
from icgd.mechanisms.machine.capture.captured import Captured
from icgd.mechanisms.machine.capture.function import capture_function
from icgd.mechanisms.machine.capture.step import capture_step
from icgd.mechanisms.machine.capture.textbook import training_step
from icgd.mechanisms.machine.construction import MACHINE
from icgd.mechanisms.machine.layer.build import machine_layer
from icgd.mechanisms.machine.layer.tables import tables_for
from icgd.mechanisms.machine.options import MachineOptions
from icgd.mechanisms.machine.passes.check import check_tape
from icgd.mechanisms.machine.passes.fuse import fused_sums
from icgd.mechanisms.machine.passes.select import select_instructions
from icgd.mechanisms.machine.passes.simplify import without_unused
from icgd.mechanisms.machine.problem import HostOptimizer, Tapes
from icgd.mechanisms.machine.programs.codec import MachineCodec
from icgd.mechanisms.machine.programs.function import FunctionProgram
from icgd.mechanisms.machine.programs.program import MachineProgram
from icgd.mechanisms.machine.programs.source import FunctionSource, Source
from icgd.mechanisms.machine.programs.training import TrainingProgram
from icgd.mechanisms.machine.schedule import Schedules
from icgd.mechanisms.machine.tape.instruction import Kind, Opcode
from icgd.mechanisms.machine.tape.tape import Tape
from icgd.transformer.gadgets.machine_heads.families import TOKENS
from icgd.transformer.gadgets.machine_heads.heads import Heads
from icgd.transformer.mask_rules import MaskRule
from icgd.transformer.program import Blueprint

DEFAULT_RADIUS = {torch.float64: 64.0, torch.float32: 64.0}
NEEDS_FLOAT = {"sqrt", "rsqrt", "reciprocal"}
"""Functions whose results can be large or small: what multiplies them wants relative precision."""


@dataclass(frozen=True)
class Traced:
    """A step or a function as tapes, not yet compiled; `icgd.trace` gives one.

    tapes   by name    source  the live objects it came from, for runs and checks in this process
    """

    tapes: Tapes
    optimizer: HostOptimizer
    dtype: torch.dtype
    source: Source | FunctionSource

    def __str__(self) -> str:
        from icgd.mechanisms.machine.tape.listing import listing

        return "\n\n".join(listing(name, tape) for name, tape in self.tapes.tapes.items())


def tape_of(captured: Captured, dtype: torch.dtype) -> Tape:
    """All passes from a captured graph to the tape that is executed."""
    tape = select_instructions(
        captured.graph, captured.in_names, captured.out_names, captured.example, dtype
    )
    tape = without_unused(fused_sums(without_unused(tape)))
    example = captured.named_example()
    check_tape(tape, example, captured(example), dtype)
    return tape


def trace(
    step: Callable[..., Any],
    *,
    example: Sequence[Any],
    model: nn.Module | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    hyper: Sequence[str] = ("lr",),
    batch_sizes: Sequence[int] = (),
) -> Traced:
    """A training step `step(*batch)`, or a function of tensors, as tapes of instructions.

    step         your loop body: it may clip, accumulate, have several losses; or any function of tensors
    example      its arguments, for shapes and types
    model        whose parameters and buffers the step reads and writes; None for a function
    optimizer    whose state and hyper-parameters it reads and writes
    hyper        hyper-parameters that a schedule may change
    batch_sizes  further numbers of rows it will be run with, besides that of the example
    """
    example = tuple(example) if isinstance(example, (tuple, list)) else (example,)
    if model is None:
        if optimizer is not None:
            raise InvalidParameter("model", None, "be given together with an optimizer")
        captured = capture_function(step, example)
        dtype = _dtype_of(captured)
        tapes = Tapes({"call": tape_of(captured, dtype)}, title="a function")
        return Traced(tapes, HostOptimizer(), dtype, FunctionSource(step, example))
    source = Source(step, model, optimizer, example, tuple(hyper))
    return _traced(source, batch_sizes)


def _traced(source: Source, batch_sizes: Sequence[int]) -> Traced:
    sizes = dict.fromkeys([source.n_rows, *batch_sizes])
    tapes: dict[str, Tape] = {}
    dtype, facts = torch.float64, dict[str, Any]()
    for size in sizes:
        batch = source.example_of(size)
        for name, fresh in (("first", True), ("step", False)):
            captured = capture_step(
                source.step, source.model, source.optimizer, batch, hyper=source.hyper, fresh=fresh
            )
            dtype = _dtype_of(captured)
            tapes[f"{name}:{size}"] = tape_of(captured, dtype)
            facts.setdefault("fixed", {}).update(_plain(captured.fixed))
        if source.loss is not None:
            inputs = batch[:-1]
            captured = capture_step(source.forward, source.model, None, inputs, fresh=True)
            tapes[f"predict:{size}"] = tape_of(captured, dtype)
    title = f"{type(source.model).__name__}"
    optimizer = source.optimizer
    host = HostOptimizer()
    if optimizer is not None:
        host = HostOptimizer(type(optimizer).__name__, tuple(source.settings()))
    facts["parameters"] = source.parameter_names()
    return Traced(Tapes(tapes, title, facts), host, dtype, source)


def _plain(values: Any) -> Any:
    if isinstance(values, Mapping):
        return {str(k): _plain(v) for k, v in values.items()}
    if isinstance(values, (list, tuple)):
        return [_plain(v) for v in values]
    if values is None or isinstance(values, (bool, int, float, str)):
        return values
    if isinstance(values, Tensor) and values.numel() == 1:
        return values.item()
    return str(values)


def _dtype_of(captured: Captured) -> torch.dtype:
    """The precision of the program: that of the numbers it works on."""
    precisions = [v.dtype for v in captured.example if v.is_floating_point()]
    return precisions[0] if precisions else torch.float64


def compile_machine(
    problem: Any,
    optimizer: torch.optim.Optimizer | None = None,
    *,
    loss: Callable[..., Tensor] | None = None,
    example: Sequence[Any] | None = None,
    batch_sizes: Sequence[int] = (),
    hyper: Sequence[str] = ("lr",),
    **options: Any,
) -> MachineProgram:
    """See `icgd.compile`: a module with an optimizer and a loss, a traced step, or a function of tensors."""
    traced = _as_traced(problem, optimizer, loss, example, batch_sizes, hyper)
    blueprint = choose(traced, MachineOptions(**options))
    blueprint.check()
    program = build(blueprint)
    program.source = traced.source
    if isinstance(program, TrainingProgram):
        program.widen = extended
    return program


def _as_traced(
    problem: Any,
    optimizer: Any,
    loss: Any,
    example: Any,
    batch_sizes: Sequence[int],
    hyper: Sequence[str],
) -> Traced:
    if isinstance(problem, Traced):
        return problem
    if example is None:
        raise InvalidParameter(
            "example",
            None,
            "be given: tensors of the shapes and types that will be used",
            remedy="For a model: example=(X[:8], y[:8]).",
        )
    if not isinstance(problem, nn.Module) or optimizer is None:
        return trace(problem, example=example)
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InvalidParameter(
            "optimizer", type(optimizer).__name__, "be a torch.optim.Optimizer of the model"
        )
    if loss is None:
        raise InvalidParameter(
            "loss",
            None,
            "be given: a function of (prediction, target)",
            remedy="A step of your own: icgd.compile(icgd.trace(step, model=..., optimizer=..., example=...)).",
        )
    step = training_step(problem, optimizer, loss)
    source = Source(step, problem, optimizer, tuple(example), tuple(hyper), loss)
    return _traced(source, batch_sizes)


def choose(traced: Traced, given: MachineOptions) -> Blueprint:
    """Every option filled in."""
    options = {name: value for name, value in asdict(given).items() if value is not None}
    mode = given.heads or _heads_for(traced.tapes)
    radius = float(options.get("radius", DEFAULT_RADIUS[traced.dtype]))
    kernels = options.get("kernels", "auto")
    heads = Heads(
        mode,
        radius,
        traced.dtype,
        exponents=_pair(options.get("exponents")),
        powers=_pair(options.get("powers")),
        turns=options.get("turns"),
        kernels=kernels,
        margin=options.get("margin"),
    )
    ranges = heads.ranges
    chosen = {
        "heads": mode,
        "radius": radius,
        "exponents": list(ranges.exponents),
        "powers": list(ranges.powers),
        "turns": ranges.turns,
        "margin": float(options.get("margin", TOKENS[traced.dtype]["read"][2])),
        "kernels": kernels,
    }
    functions = {
        i.settings.get("function", "read") for tape in traced.tapes.tapes.values() for i in tape
    }
    fitted = {
        name: {"even": list(even), "odd": list(odd)}
        for name, (even, odd) in heads.values_of(sorted(functions)).items()
    }
    return Blueprint(MACHINE, traced.tapes, traced.optimizer, chosen, traced.dtype, fitted)


def _pair(value: Sequence[int] | None) -> tuple[int, int] | None:
    return None if value is None else (int(value[0]), int(value[1]))


def _heads_for(tapes: Tapes) -> Literal["fixed", "float"]:
    """Fixed heads where products meet numbers of ordinary size only."""
    every = [i for tape in tapes.tapes.values() for i in tape]
    wide = any(i.opcode is Opcode.FUNCTION and i.settings["function"] in NEEDS_FLOAT for i in every)
    whole = any(r.kind is Kind.INDEX for i in every for r in (i.output,) if i.n_reads)
    return "float" if wide or whole else "fixed"


def heads_of(blueprint: Blueprint) -> Heads:
    """The heads that a blueprint asks for."""
    o = blueprint.options
    return Heads(
        o["heads"],
        o["radius"],
        blueprint.dtype,
        exponents=_pair(o["exponents"]),
        powers=_pair(o["powers"]),
        turns=o["turns"],
        kernels=o["kernels"],
        margin=o["margin"],
        fitted={
            name: (tuple(map(float, each["even"])), tuple(map(float, each["odd"])))
            for name, each in blueprint.fitted.items()
        },
    )


def build(blueprint: Blueprint) -> MachineProgram:
    """The program a blueprint describes.

    Statement: [COT] Proposition 4.4

    Differs from the paper: any step that can be written as instructions, where it has networks and SGD and
    names other models and optimizers as future work.
    """
    tapes: Tapes = blueprint.problem
    dtype = blueprint.dtype
    heads = heads_of(blueprint)
    schedules = Schedules.of(tapes.tapes)
    tables = tables_for(schedules.kinds.banks, heads, dtype)
    radius = heads.domain("read").high
    layer = machine_layer(schedules.kinds, schedules.room, tables, heads, radius, dtype)
    layer = layer.watched(smaller="smaller shapes, heads='fixed', or narrower exponents")
    mask: MaskRule = schedules.mask()
    kind = TrainingProgram if any(n.startswith("step:") for n in tapes.tapes) else FunctionProgram
    return kind(
        blueprint,
        step=layer,
        mask=mask,
        layout=layer.post.target,
        codec=MachineCodec(tapes.tapes, schedules, [layer.attention.like]),
        certificate=heads.certificate("read"),
    )


def extended(program: TrainingProgram, sizes: Sequence[int]) -> TrainingProgram:
    """The same program with tapes for batches of further sizes; its layer is written anew."""
    assert isinstance(program.source, Source)
    traced = _traced(program.source, [*program.batch_sizes, *sizes])
    wider = build(replace(program.blueprint, problem=traced.tapes, optimizer=traced.optimizer))
    assert isinstance(wider, TrainingProgram)
    wider.source, wider.widen = program.source, extended
    return wider
