"""What a compiled program is made of, whatever its construction: its own parts, counted."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from icgd.base.numbers import whole_number
from icgd.transformer.program import Program
from icgd.transformer.program.recording import title_of


@dataclass(frozen=True)
class ProgramCost:
    """A compiled program.

    stages        sublayers of a step, in order
    d_token       entries of a token of a block
    stored        numbers that are saved
    parameters    entries of the literal matrices of a step, on `n_tokens` tokens
    dense_flops   of one call with these matrices
    head_error    what one head promises
    """

    construction: str
    title: str
    problem: str
    optimizer: str
    dtype: str
    stages: tuple[str, ...]
    n_tokens: int
    d_token: int
    stored: int
    parameters: int
    dense_flops: int
    head_error: float

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for a result file."""
        return asdict(self)


def program_cost(program: Program, *, n_examples: int = 20) -> ProgramCost:
    """Count the parts of a program, for blocks of as many tokens as examples."""
    n_tokens = whole_number("n_examples", n_examples, 1)
    layers = [
        layer for layer in (program.entry, program.step, program.readout) if layer is not None
    ]
    return ProgramCost(
        construction=program.construction.name,
        title=title_of(program.blueprint),
        problem=repr(program.problem),
        optimizer=repr(program.optimizer),
        dtype=str(program.dtype).removeprefix("torch."),
        stages=tuple(stage.name for stage in program.step.stages()),
        n_tokens=n_tokens,
        d_token=program.layout.width,
        stored=sum(value.numel() for value in program.state_dict().values()),
        parameters=sum(layer.dense_parameters(n_tokens) for layer in layers),
        dense_flops=program.step.dense_flops(n_tokens),
        head_error=program.certificate.sup_error,
    )
