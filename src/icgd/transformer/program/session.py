"""How a construction talks to the runtime: user data in, blocks out; blocks in, results out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor

from icgd.transformer.blocks import Block
from icgd.transformer.mask_rules import Address, Step
from icgd.transformer.runtime.executors.chain import StructuredExecutor
from icgd.transformer.runtime.loop import Executor

Arrivals = Callable[[StructuredExecutor | None], Iterator[Mapping[Address, Block]]]


@dataclass(frozen=True)
class Session:
    """One run, prepared: everything the loop needs and how to read the result.

    arrivals    per round, the blocks that arrive; given the structured executor it may have it read
                many rounds' inputs off the grid in one call
    wanted      slots of live blocks that decode reads
    decode      the trained parameters held by the live blocks
    units       units of each layer, where literal tokens hold padding beside them
    n_columns   tokens per block in the literal form
    answers     tokens, the last ones of the state, whose prediction is wanted after the run
    shaped      what is made of these predictions, (..., answers, k), before they are returned
    rows        shape of the examples to predict for, where the blocks do not tell it
    schedule    the steps of a round, where rounds differ; the mask rule's unless given
    """

    prompt: dict[Address, Block]
    arrivals: Arrivals
    n_rounds: int
    batched: bool
    n_problems: int
    structured_flops_per_round: int
    wanted: Mapping[Address, frozenset[str]]
    decode: Callable[[Mapping[Address, Block]], Any]
    n_columns: int
    answers: int = 0
    shaped: Callable[[Tensor], Tensor] | None = None
    rows: tuple[int, ...] = ()
    units: Mapping[int, int] = field(default_factory=dict)
    schedule: Callable[[int], Sequence[Step]] | None = None


class Dumped(Mapping[Address, Block]):
    """Live blocks as slots, whatever form an executor keeps them in; each is unpacked when it is looked at."""

    def __init__(self, engine: Executor, live: Mapping[Address, Any]) -> None:
        self._engine, self._live = engine, live

    def __getitem__(self, address: Address) -> Block:
        return self._engine.dump(self._live[address])

    def __iter__(self) -> Iterator[Address]:
        return iter(self._live)

    def __len__(self) -> int:
        return len(self._live)


class Codec(Protocol):
    """Encoding and decoding of one construction.

    A codec serves any number of runs at a time, in threads: what belongs to one run is in its Session,
    and no method changes the codec.
    """

    def session(
        self,
        X: Any,
        Y: Any,
        *,
        init: Any,
        epochs: int | None,
        steps: int | None,
        padded: bool,
        query: Any = None,
    ) -> Session:
        """Check and encode training data, initial weights, the number of rounds and queries."""

    def prediction(self, X: Any, weights: Any, *, padded: bool) -> tuple[Session, Address]:
        """A session whose rounds only predict, and the block that holds the output."""

    def is_plain(self) -> bool:
        """Whether the flags of the prompt are the ones the layer was compiled for."""

    def problems(self, X: Any, Y: Any, init: Any) -> list[tuple[Tensor, Tensor, Any]]:
        """The independent problems in checked data, one (X, Y, init) each."""

    def output_of(self, block: Block) -> Tensor:
        """The prediction held by that block."""

    def join(self, outputs: list[Tensor], session: Session) -> Tensor:
        """The predictions of all rounds of this session as one tensor."""
