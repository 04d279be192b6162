"""What a run gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor

from icgd.transformer.runtime.cost import Cost
from icgd.transformer.runtime.executors.choose import ExecutorName
from icgd.transformer.runtime.loop import TraceEntry
from icgd.transformer.runtime.watch import KinkReport

if TYPE_CHECKING:
    from icgd.transformer.program.program import Program


@dataclass(frozen=True, repr=False)
class Run:
    """The result of `program.run`.

    weights        after the last round: [(W, b), ...] of a network, w of a linear model
    prediction     for programs with queries in the prompt: one row per query
    history        with record="weights": the weights after every round
    trace          with record="trace": every block the transformer wrote, with what it saw
    cost           rounds, blocks, live_blocks_max, dense_flops, structured_flops
    range_use      largest |s| / radius any head was asked
    near_kink      units met so close to a ReLU's kink that rounding could decide them
    """

    program: Program
    weights: Any
    cost: Cost
    range_use: float
    near_kink: KinkReport
    executor: ExecutorName
    prediction: Tensor | None = None
    history: list[Any] | None = None
    trace: list[TraceEntry] = field(default_factory=list)

    def __repr__(self) -> str:
        kink = f", {self.near_kink.count} near a kink" if self.near_kink.count else ""
        return (
            f"Run({self.program.construction.name}, {self.cost.rounds:,} rounds, range_use="
            f"{self.range_use:.3g}{kink}, executor={self.executor!r})"
        )

    def predict(self, X_new: Any) -> Tensor:
        """The frozen transformer's own predictions with the final weights, one per row."""
        return self.program.predict(X_new, self.weights, executor=self.executor)
