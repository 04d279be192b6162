"""The answer of icgd.cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

Count = int | None
"""None where the wanted error cannot be reached."""


@dataclass(frozen=True)
class LeftOut:
    """Something a paper does not count: an amount per example, per pass over the data, and in all."""

    name: str
    unit: str
    per_example: float
    per_pass: float
    total: float
    note: str


@dataclass(frozen=True)
class MethodCost:
    """What training a network costs by one method.

    method      "cot", "stack", "forward_mode" or "sgd"
    widths, activation, n_examples, steps
                the task; a step is one pass over the data, so all methods see equally many examples
    error       wanted of every fitted function and of every number that is read; None: the default sizes
    certified   what is promised for them at these sizes; 0 where all are exact
    sizes       units of the fits or grid tokens
    layers      of one step as the paper counts them; the one layer of a chain of thought
    heads, hidden
                attention or multiplication heads, and feed-forward units, of every sublayer in order
    d_token     entries of a token
    n_tokens    tokens the layers work on
    parameters  entries of the literal matrices
    nonzeros    of these
    memory_bytes
                of the weights of one step by model, 8 bytes a number
    state_bytes tokens that are alive at a time
    flops_per_example, flops_per_pass, flops_total
                by model (dense, linear, nonzeros, structured): matrix products, two operations an entry
    updates_per_pass
                changes of the weights in a pass: 1 for full batches, one per example otherwise
    serial_per_pass
                sublayers of a pass that have to wait for one another
    left_out    what the method's paper does not count, and copies it could do without
    notes       what could not be reached, and what stands for what
    """

    method: str
    widths: tuple[int, ...]
    activation: str
    n_examples: int
    steps: int
    error: float | None
    certified: float | None
    sizes: Mapping[str, int]
    layers: int
    heads: tuple[int, ...] | None
    hidden: tuple[int, ...] | None
    d_token: int
    n_tokens: int
    parameters: Count
    nonzeros: Count
    memory_bytes: Mapping[str, Count]
    state_bytes: int
    flops_per_example: Mapping[str, float | None]
    flops_per_pass: Mapping[str, Count]
    flops_total: Mapping[str, Count]
    updates_per_pass: int
    serial_per_pass: int
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def reached(self) -> bool:
        """Whether the wanted error can be had."""
        return self.parameters is not None

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for a result file."""
        return asdict(self)
