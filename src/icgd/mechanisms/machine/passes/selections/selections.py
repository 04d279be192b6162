"""Every rule, in one object."""

from __future__ import annotations

from typing import Any

from icgd.mechanisms.machine.passes.selections.lookups import Lookups
from icgd.mechanisms.machine.tape.instruction import Operand


class Selections(Lookups):
    """Rules from operations to instructions; arguments are operands, constant tensors or numbers."""


for _name in ("sqrt", "rsqrt", "exp", "log", "erf", "sin", "cos", "sigmoid", "tanh", "reciprocal"):

    def _rule(
        self: Selections,
        args: list[Any],
        named: dict[str, Any],
        shape: tuple[int, ...],
        _called: str = _name,
    ) -> Operand:
        return self._function(_called, args[0])

    setattr(Selections, f"op_{_name}", _rule)
