"""The trace format, version 1: one JSON object whose every field is named here.

Numbers that belong together are kept in two pools of little-endian floats, "f8" and "f4", compressed and
written in base64; everywhere else a tensor is a reference [pool, offset, *shape], and equal tensors share one
place. A reader that knows this file and docs/trace_format.md needs nothing else of the package.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, NonNegativeInt, PositiveInt

from icgd.transformer.trace.arrays import decode, look_up

FORMAT = "icgd-trace/1"

Ref = Annotated[
    list[Any],
    Field(
        min_length=2, max_length=6, description='["f8" or "f4", offset, *shape]: a tensor in a pool'
    ),
]
Value = FiniteFloat | Ref
"""A number written out, or a reference to a tensor."""
Name = Annotated[str, Field(max_length=200)]
Sentence = Annotated[str, Field(max_length=4000)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SlotInfo(_Model):
    """A named group of coordinates of a token."""

    name: Name
    shape: list[PositiveInt] = Field(max_length=3)
    meaning: Sentence = ""
    each: bool = Field(False, description="every token of a block has a value of its own")


class ProgramInfo(_Model):
    """What was run."""

    construction: Name
    title: Sentence = Field(description="one line for people")
    feed: Literal["append", "replace"]
    problem: dict[str, Any]
    optimizer: dict[str, Any]
    options: dict[str, Any]
    dtype: Name
    executor: Name
    radius: FiniteFloat | None = Field(description="certified range of the heads; null: unlimited")
    head_error: FiniteFloat | None = Field(description="what one head promises")


class BlockKind(_Model):
    """One kind of block: what its letter stands for."""

    kind: Name
    title: Sentence


class ScheduledStep(_Model):
    """One step of a round, as the mask rule has it: kinds and layers of blocks, not their numbers."""

    kind: Name
    title: Sentence
    writes: tuple[Name, NonNegativeInt]
    reads: list[tuple[Name, NonNegativeInt]]


class StageInfo(_Model):
    """One part of the layer a step goes through, in order.

    gates  names of the units that open or shut; which are open is told per step
    """

    name: Name
    kind: Literal["feed_forward", "softmax", "relu", "tanh", "sigmoid", "linear", "product"]
    title: Sentence
    slots: list[SlotInfo] = Field(description="layout of the token this stage gives back")
    gates: list[Name] = Field(default_factory=list)


class GridInfo(_Model):
    """The tokens a bank of heads attends over: score of token k = asked * linear_k + offset_k.

    levels  where a token stands on the axis of what is asked
    values  what it answers: a head reads the sum of weight_k * values_k
    """

    bank: Name
    levels: Ref
    linear: Ref
    offset: Ref
    values: Ref


class Curves(_Model):
    """One number per round, for every round, recorded in detail or not."""

    error: Ref | None = Field(None, description="largest |weight - exact weight|")
    loss: Ref | None = Field(None, description="loss of the weights after the round")
    exact_loss: Ref | None = Field(None, description="the same for the exact optimizer")
    range_use: Ref | None = Field(None, description="largest |asked| / radius in the round")
    loss_title: Sentence = "loss"


class BlockEntry(_Model):
    """A block of the prompt; blocks are listed in the order in which they were first seen or written.

    slots   slot -> value; slots not mentioned are exactly zero
    away    slot -> value minus the exact one, for slots whose exact value is known; NaN: not for this entry
    origin  "prompt": there at the start; "arrival": given in this round; "step": written by the layer;
            "earlier": written in a round of which nothing else was kept
    tokens  how many tokens it has; of slots that each token has to itself only the first `shown` are kept
    """

    kind: Name
    layer: NonNegativeInt
    round: NonNegativeInt
    origin: Literal["prompt", "arrival", "step", "earlier"]
    slots: dict[Name, Value]
    away: dict[Name, Value] = Field(default_factory=dict)
    tokens: PositiveInt = 1
    shown: PositiveInt = 1


class HeadsEntry(_Model):
    """What heads of one bank asked and saw in one step.

    over "grid":   asked (n_heads,); weights (len(heads), p) of the heads listed, over the bank's grid
    over "tokens": asked (len(heads), n) are the scores of the tokens listed, weights their attention,
                   over the first n tokens
    over "units":  asked (len(heads), n): numbers that heads of a family, one column each, ask in the
                   tokens listed; no weights
    read           what came back: one number per head (grid), or one per entry of asked (units, and heads
                   that multiply tokens)
    """

    bank: Name
    slot: Name
    over: Literal["grid", "tokens", "units"]
    asked: Ref
    read: Ref | None = None
    heads: list[NonNegativeInt]
    weights: Ref | None = None
    use: FiniteFloat | None = Field(None, description="largest |asked| / radius")


class StageEntry(_Model):
    """What one stage did in one step.

    open   one character per gate: 1 open, 0 shut
    slots  the token after the stage; of stages in a stack, only slots the stage changed, 0 for one it cleared
    """

    open: str = Field("", max_length=4000, pattern="^[01]*$")
    slots: dict[Name, Value] = Field(default_factory=dict)
    heads: list[HeadsEntry] = Field(default_factory=list)


class StepEntry(_Model):
    """One call of the layer: which blocks it saw, which it wrote, and what happened inside."""

    round: PositiveInt
    place: NonNegativeInt = Field(description="index into the schedule")
    reads: list[NonNegativeInt] = Field(description="indices into blocks, in the order stacked")
    writes: NonNegativeInt
    stages: list[StageEntry] = Field(default_factory=list)


class Pool(_Model):
    """Many numbers, little-endian, in base64.

    encoding "raw": as they are; "deflate": all first bytes, then all second bytes and so on, compressed
    by zlib, which halves the numbers of a run
    """

    count: NonNegativeInt
    encoding: Literal["raw", "deflate"] = "raw"
    data: str


class Trace(_Model):
    """A run, watched: what the viewer shows.

    >>> import icgd, torch
    >>> program = icgd.compile(icgd.Ridge(2, lam=0.1), icgd.GD(lr=0.5))
    >>> x = torch.linspace(-1, 1, 8, dtype=torch.float64).reshape(4, 2)
    >>> trace = icgd.record_trace(program, x, x[:, 0], steps=3)
    >>> numbers = trace.numbers()
    >>> written = trace.blocks[trace.steps[-1].writes]
    >>> numbers(written.slots["weight"]).shape, float(abs(numbers(written.away["weight"])).max()) < 1e-15
    ((2,), True)
    """

    format: Literal["icgd-trace/1"] = "icgd-trace/1"
    icgd_version: Name
    program: ProgramInfo
    layout: list[SlotInfo]
    kinds: list[BlockKind]
    schedule: list[ScheduledStep]
    stages: list[StageInfo]
    grids: list[GridInfo] = Field(default_factory=list)
    n_rounds: PositiveInt
    rounds: list[PositiveInt] = Field(description="rounds recorded in detail, ascending")
    curves: Curves
    blocks: list[BlockEntry]
    steps: list[StepEntry]
    notes: list[Sentence] = Field(default_factory=list)
    arrays: dict[Literal["f8", "f4"], Pool]

    def numbers(self) -> Callable[[Any], NDArray[Any]]:
        """A function that gives the tensor of any value or reference in this trace."""
        pools = {name: decode(name, pool) for name, pool in self.arrays.items()}
        return lambda value: look_up(pools, value)

    def save(self, path: str | Path) -> None:
        """Write it as JSON, atomically."""
        from icgd.transformer.trace.file import write_trace

        write_trace(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read and check a file; anything that is not a whole trace is an InvalidFile."""
        from icgd.transformer.trace.file import read_trace

        return read_trace(Path(path))
