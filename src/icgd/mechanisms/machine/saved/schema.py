"""What the config of a saved program of the machine may say.

Everything the builder relies on is checked here, tape by tape: names exist before they are read, routes fit
their registers, operands fit their instruction, and what arrives in a round is what the host can bring.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from icgd.mechanisms.machine.saved.routes import checked_shape, shape_after_moves
from icgd.mechanisms.machine.saved.rules import check_instruction
from icgd.mechanisms.machine.tape.instruction import Kind, Opcode, Register
from icgd.transformer.program.files import AnyConfig

TAPE_NAMES = re.compile(r"call|(?:first|step|predict):[1-9]\d{0,11}")
HYPER = re.compile(r"hyper\.(\d{1,4})\.(.+)")
LASTING = ("param.", "buffer.", "state.", "slot.")
FITTED = ("sqrt", "rsqrt", "reciprocal", "log", "exp", "erf", "sin")
"""Functions whose heads have fitted values."""
ARRIVING = (*LASTING, "hyper.", "data.")
"""What stands in the inputs of a tape, by the beginning of their names."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


def register_of(described: Any) -> Register:
    """[name, shape, kind] as a register, or ValueError."""
    if not isinstance(described, list) or len(described) != 3:
        raise ValueError("a register is [name, shape, kind]")
    name, shape, kind = described
    if not isinstance(name, str) or not name:
        raise ValueError("a register has a name")
    if kind not in tuple(Kind):
        raise ValueError(f"{str(kind)[:40]!r} is no kind of register: {', '.join(Kind)}")
    return Register(name, checked_shape(shape), Kind(kind))


def _is_register(value: Any) -> Any:
    register_of(value)
    return value


RegisterConfig = Annotated[list[Any], AfterValidator(_is_register)]


def _is_constant(value: Any) -> Any:
    """[register, numbers]: as many as it has entries."""
    if len(value) != 2 or not isinstance(value[1], list):
        raise ValueError("a constant is [register, numbers]")
    register, numbers = register_of(value[0]), value[1]
    if len(numbers) != register.size:
        raise ValueError(f"{register.name} holds {register.size} numbers, not {len(numbers)}")
    wanted = (bool,) if register.kind is Kind.FLAG else (int, float)
    for number in numbers:
        if type(number) not in wanted or number != number:
            raise ValueError(f"{str(number)[:40]!r} is no entry of {register.name}")
    return value


class InstructionConfig(_Part):
    """One step of a tape."""

    opcode: Literal[tuple(str(code) for code in Opcode)]  # type: ignore[valid-type]
    operands: Annotated[list[list[Any]], Field(min_length=1, max_length=3)]
    output: RegisterConfig
    settings: dict[str, Any]
    origin: Annotated[list[str | int], Field(min_length=4, max_length=4)]

    def check(self, known: Mapping[str, Register]) -> Register:
        """The register it writes, if its operands exist and fit."""
        operands = []
        for described in self.operands:
            if len(described) != 2 or not isinstance(described[0], str):
                raise ValueError("an operand is [register, route]")
            name, route = described
            if name not in known:
                raise ValueError(f"it reads {name[:40]!r}, which nothing before it writes")
            operands.append((known[name], shape_after_moves(route, known[name].shape)))
        output = register_of(self.output)
        if output.name in known:
            raise ValueError(f"it writes {output.name!r} a second time")
        check_instruction(Opcode(self.opcode), operands, output, self.settings)
        file, line, text, phase = self.origin
        if [type(x) for x in (file, line, text, phase)] != [str, int, str, str]:
            raise ValueError("an origin is [file, line, text, phase]")
        return output


class TapeConfig(_Part):
    """What a round finds, does and leaves."""

    inputs: dict[str, RegisterConfig]
    constants: list[Annotated[list[Any], AfterValidator(_is_constant)]]
    instructions: list[InstructionConfig]
    outputs: dict[str, str]

    def model_post_init(self, context: Any) -> None:
        """Every register is written once, and before it is read."""
        known: dict[str, Register] = {}
        for name in self.inputs:
            if not name.startswith(ARRIVING):
                raise ValueError(f"{name[:40]!r} is nothing that a round can find")
        for described in (*self.inputs.values(), *(c[0] for c in self.constants)):
            register = register_of(described)
            if register.name in known:
                raise ValueError(f"register {register.name!r} is there twice")
            known[register.name] = register
        for number, instruction in enumerate(self.instructions, 1):
            try:
                output = instruction.check(known)
            except ValueError as error:
                raise ValueError(f"step {number}, {instruction.opcode}: {error}") from None
            known[output.name] = output
        for name, register_name in self.outputs.items():
            if register_name not in known:
                raise ValueError(
                    f"{name[:40]!r} is to be {register_name[:40]!r}, which is not written"
                )

    def shapes(self) -> dict[str, tuple[tuple[int, ...], Kind]]:
        """Shape and kind of everything that outlives a round, by name."""
        every = [register_of(r) for r in self.inputs.values()]
        every += [register_of(c[0]) for c in self.constants]
        every += [register_of(i.output) for i in self.instructions]
        known = {register.name: register for register in every}
        inputs = {name: register_of(described) for name, described in self.inputs.items()}
        left = {name: known[register] for name, register in self.outputs.items()}
        return {name: (r.shape, r.kind) for name, r in {**left, **inputs}.items()}


def _are_tapes(tapes: dict[str, TapeConfig]) -> dict[str, TapeConfig]:
    """Names the host knows; a training has tapes for its first round and for the others."""
    for name in tapes:
        if not TAPE_NAMES.fullmatch(name):
            raise ValueError(f"{name[:40]!r} is no name of a tape")
    sizes = {name.partition(":")[2] for name in tapes if name.startswith(("first:", "step:"))}
    if not sizes and set(tapes) != {"call"}:
        raise ValueError("there is no tape 'call', and none for the steps of a training")
    for size in sizes:
        for name in (f"first:{size}", f"step:{size}"):
            if name not in tapes:
                raise ValueError(f"the tape {name!r} is missing")
    if sizes and "call" in tapes:
        raise ValueError("a training has no tape 'call'")
    lasting: dict[str, Any] = {}
    for name, tape in tapes.items():
        for value, shape in tape.shapes().items():
            outlives = value.startswith(LASTING)
            if outlives and lasting.setdefault(value, shape) != shape:
                raise ValueError(f"{value!r} has another shape in {name!r} than elsewhere")
    return tapes


class FactsConfig(_Part):
    """What the host knows of the optimizer's state."""

    fixed: dict[str, dict[str, Any]] = Field(default_factory=dict)
    parameters: list[list[str]] = Field(default_factory=list)


class TapesConfig(_Part):
    """What the machine executes."""

    title: str
    facts: FactsConfig
    tapes: Annotated[dict[str, TapeConfig], AfterValidator(_are_tapes)]


class HostOptimizerConfig(_Part):
    """The user's optimizer by name and settings."""

    name: Literal["HostOptimizer"]
    called: str
    groups: list[dict[str, Any]]


class MachineConfig(_Part):
    """Every option of the machine, filled in."""

    heads: Literal["fixed", "float"]
    radius: Annotated[float, Field(ge=1e-30, le=1e30)]
    exponents: Annotated[list[int], Field(min_length=2, max_length=2)]
    powers: Annotated[list[int], Field(min_length=2, max_length=2)]
    turns: Annotated[int, Field(ge=1, le=512)]
    margin: Annotated[float, Field(ge=0, le=64)]
    kernels: Literal["auto", "cpp", "torch"]


class FittedConfig(_Part):
    """Values of the tokens of a fitted head."""

    even: list[Annotated[float, Field(ge=-64, le=64)]]
    odd: list[Annotated[float, Field(ge=-64, le=64)]]


class MACHINE_CONFIG(AnyConfig):  # noqa: N801 - named as the other schemas are
    """A whole config."""

    problem: TapesConfig  # type: ignore[assignment]
    optimizer: HostOptimizerConfig  # type: ignore[assignment]
    options: MachineConfig  # type: ignore[assignment]
    dtype: Literal["float64", "float32"]
    tables: dict[Literal[FITTED], FittedConfig] = Field(default_factory=dict)  # type: ignore[valid-type]

    def model_post_init(self, context: Any) -> None:
        """The optimizer has every hyper-parameter that arrives in a round, as a number."""
        groups = self.optimizer.groups
        for tape in self.problem.tapes.values():
            for name in tape.inputs:
                if not name.startswith("hyper."):
                    continue
                match = HYPER.fullmatch(name)
                group, key = (int(match[1]), match[2]) if match else (len(groups), "")
                value = groups[group].get(key) if group < len(groups) else None
                if not isinstance(value, (int, float)) or not math.isfinite(value):
                    raise ValueError(
                        f"no parameter group of the optimizer has a number for {name!r}"
                    )
