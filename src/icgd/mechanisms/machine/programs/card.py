"""What the model card of a saved program says: what it executes, for which shapes, and how to run it."""

from __future__ import annotations

from collections.abc import Sequence

from icgd.mechanisms.machine.programs.program import MachineProgram
from icgd.mechanisms.machine.programs.training import TrainingProgram
from icgd.mechanisms.machine.tape.instruction import Kind, Register
from icgd.mechanisms.machine.tape.tape import Tape
from icgd.transformer.program.card import CardText


def card_text(program: MachineProgram) -> CardText:
    """Facts and usage of a training, or of a function."""
    return _training(program) if isinstance(program, TrainingProgram) else _function(program)


def _training(program: TrainingProgram) -> CardText:
    step = program.tapes.tapes[f"step:{program.batch_sizes[0]}"]
    data = _named(step, "data.")
    settings = [
        ", ".join(f"{k} {v:g}" for k, v in group.items() if type(v) in (int, float))
        for group in program.optimizer.groups
    ]
    sizes = ", ".join(map(str, program.batch_sizes))
    facts = {
        "Trains": f"{program.tapes.title}, with parameters {_listed(step, 'param.')}",
        "Optimizer": f"{program.optimizer.called} ({'; '.join(settings) or 'no settings'})",
        "Batches": f"of {sizes} rows; a row holds {', '.join(_row(r) for r in data)}",
        "Tapes": _tapes(program),
    }
    names = ["X", "y"] if len(data) == 2 else [f"data_{k}" for k in range(len(data))]
    given = ", ".join(names)
    use = [
        "# model: the module it was compiled from, or one with the same parameters",
        f"run = program.run({given}, init=model.state_dict(), epochs=1, batch_size={program.batch_sizes[0]})",
        "model.load_state_dict(run.state_dict)",
    ]
    if any(name.startswith("predict:") for name in program.tapes.tapes):
        use.append(f"run.predict({', '.join(names[:-1])})")
    return CardText(facts, use)


def _function(program: MachineProgram) -> CardText:
    tape = program.tapes.tapes["call"]
    shapes = [_shape(register) for register in tape.inputs.values()]
    results = [_shape(register) for register in tape.outputs.values()]
    facts = {
        "Computes": f"{program.tapes.title} of tensors {', '.join(shapes)}",
        "Gives": f"{', '.join(results)}",
        "Tapes": _tapes(program),
    }
    given = ", ".join("abcdefghijkl"[k] if k < 12 else f"x{k}" for k in range(len(shapes)))
    return CardText(facts, [f"program({given})", f"program.run({given}, steps=50)"])


def _tapes(program: MachineProgram) -> str:
    return ", ".join(f"{name} of {len(tape)} steps" for name, tape in program.tapes.tapes.items())


def _named(tape: Tape, start: str) -> Sequence[Register]:
    return [register for name, register in tape.inputs.items() if name.startswith(start)]


def _listed(tape: Tape, start: str) -> str:
    listed = [
        f"{name.removeprefix(start)} {_shape(register)}"
        for name, register in tape.inputs.items()
        if name.startswith(start)
    ]
    more = f" and {len(listed) - 12} more" if len(listed) > 12 else ""
    return ", ".join(listed[:12]) + more


def _row(register: Register) -> str:
    what = {Kind.INDEX: "whole number", Kind.FLAG: "flag"}.get(register.kind, "number")
    inner = register.shape[1:]
    return f"a {what}" if not inner else f"{' x '.join(map(str, inner))} {what}s"


def _shape(register: Register) -> str:
    return "x".join(map(str, register.shape)) or "number"
