"""What the operands of every instruction must be: how many, of which kinds, and with which shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from icgd.mechanisms.machine.saved.routes import Shape, product_shape
from icgd.mechanisms.machine.tape.instruction import Kind, Opcode, Register
from icgd.mechanisms.machine.tape.semantics import FUNCTIONS

COUNTS = {
    Opcode.AFFINE: (1, 3),
    Opcode.JOIN: (1, 3),
    Opcode.MULTIPLY: (2, 3),
    Opcode.MATMUL: (2, 3),
    Opcode.FUNCTION: (1, 1),
    Opcode.SOFTMAX: (1, 1),
    Opcode.RELU: (1, 1),
    Opcode.COMPARE: (2, 2),
    Opcode.EQUALS: (2, 2),
    Opcode.SELECT: (3, 3),
    Opcode.BOTH: (2, 2),
    Opcode.INVERT: (1, 1),
    Opcode.NUMBER: (1, 1),
}
"""Fewest and most operands."""
SETTINGS = {
    Opcode.JOIN: {"axis"},
    Opcode.MULTIPLY: {"read"},
    Opcode.MATMUL: {"read"},
    Opcode.FUNCTION: {"function"},
}
"""What belongs to an operation; nothing to those that are left out."""
FLAGS_IN = {Opcode.SELECT: (0,), Opcode.BOTH: (0, 1), Opcode.INVERT: (0,), Opcode.NUMBER: (0,)}
"""Operands that are flags; all others are numbers."""
FLAGS_OUT = (Opcode.COMPARE, Opcode.EQUALS, Opcode.BOTH, Opcode.INVERT)
"""Instructions that write flags."""


def check_instruction(
    opcode: Opcode,
    operands: Sequence[tuple[Register, Shape]],
    output: Register,
    settings: Mapping[str, Any],
) -> None:
    """Raise ValueError unless operands, after their routes, fit the operation and what it writes."""
    fewest, most = COUNTS[opcode]
    if not fewest <= len(operands) <= most:
        raise ValueError(f"it has {len(operands)} operands")
    _check_settings(opcode, settings, operands)
    for place, (register, _) in enumerate(operands):
        if (register.kind is Kind.FLAG) != (place in FLAGS_IN.get(opcode, ())):
            raise ValueError(f"operand {place + 1}, {register.name}, is a {register.kind}")
    if (output.kind is Kind.FLAG) != (opcode in FLAGS_OUT):
        raise ValueError(f"it cannot write {output.name}, a {output.kind}")
    shape = _result(opcode, [shape for _, shape in operands], settings)
    if shape is None:
        shapes = " and ".join(str(list(shape)) for _, shape in operands)
        raise ValueError(f"operands of shapes {shapes} do not fit together")
    if shape != output.shape:
        raise ValueError(f"it gives {list(shape)}, and {output.name} has {list(output.shape)}")


def _check_settings(
    opcode: Opcode, settings: Mapping[str, Any], operands: Sequence[tuple[Register, Shape]]
) -> None:
    if set(settings) - SETTINGS.get(opcode, set()):
        raise ValueError(f"its settings are {sorted(settings)}")
    if opcode is Opcode.FUNCTION and settings.get("function") not in tuple(FUNCTIONS):
        raise ValueError(f"{str(settings.get('function'))[:40]!r} is no function heads have")
    read = settings.get("read", 0)
    if type(read) is not int or read not in (0, 1):
        raise ValueError(f"heads read operand {str(read)[:40]}")
    if opcode is Opcode.JOIN:
        axis = settings.get("axis")
        if type(axis) is not int or not 0 <= axis < len(operands[0][1]):
            raise ValueError(f"it joins along axis {str(axis)[:40]}")


def _result(opcode: Opcode, shapes: Sequence[Shape], settings: Mapping[str, Any]) -> Shape | None:
    """The shape of the result; None where the operands do not fit together."""
    if opcode is Opcode.JOIN:
        axis = int(settings["axis"])
        others = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
        if len(others) > 1 or any(len(shape) <= axis for shape in shapes):
            return None
        return (*shapes[0][:axis], sum(s[axis] for s in shapes), *shapes[0][axis + 1 :])
    if opcode is Opcode.MATMUL:
        product = product_shape(shapes[0], shapes[1])
        return product if len(shapes) == 2 or shapes[2] == product else None
    if opcode is Opcode.SOFTMAX and not shapes[0]:
        return None
    return shapes[0] if len(set(shapes)) == 1 else None
