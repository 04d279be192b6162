"""Blocks of the chain of thought of [COT] Definition 4.3, and exact SGD written in them.

A student is a ReLU network of N square layers that learns from a teacher of its shape, one example a round.
Round l writes F_1 .. F_N and then B_N .. B_1; an operator learns to write one block from the two before it:
    forward   [F_{i-1}; B_i] -> F_i        backward   [B_{i+1}; F_i] -> B_i
All columns of a block are equal, so that one column stands for the d of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from icgd.transformer.layout import Layout, Slot


def forward_layout(d: int) -> Layout:
    """F_i."""
    return Layout(
        [
            Slot("output", (d,), "o_i", each=True),
            Slot("input", (d,), "o_{i-1}", each=True),
            Slot("slope", (d,), "1 where the ReLU is open", each=True),
            Slot("weight", (d, d), "W_i, row by row", each=True),
            Slot("one", (), "1", each=True),
        ]
    )


def backward_layout(d: int) -> Layout:
    """B_i."""
    return Layout(
        [
            Slot("delta", (d,), "derivative of the loss by z_i", each=True),
            Slot("signal", (d,), "W_i^T delta_i", each=True),
            Slot("weight", (d, d), "W_i after the step", each=True),
            Slot("zero", (d + 1,), "nothing", each=True),
        ]
    )


@dataclass(frozen=True)
class Students:
    """Networks that are about to learn.

    weights  (K, N, d, d): where they start
    teacher  (K, N, d, d)
    inputs   (K, L, d): the example of every round
    lr       step size, for the loss |o_N - y|^2
    """

    weights: Tensor
    teacher: Tensor
    inputs: Tensor
    lr: float

    @property
    def d(self) -> int:
        """Width of all layers."""
        return self.weights.shape[-1]

    @property
    def n_layers(self) -> int:
        """N."""
        return self.weights.shape[1]

    @property
    def n_rounds(self) -> int:
        """L."""
        return self.inputs.shape[1]

    def labels(self, round_: int) -> Tensor:
        """(K, d): what the teacher says."""
        out = self.inputs[:, round_]
        for i in range(self.n_layers):
            out = _apply(self.teacher[:, i], out).relu()
        return out


def random_students(
    count: int,
    d: int,
    n_layers: int,
    n_rounds: int,
    lr: float,
    generator: torch.Generator,
    active: int = 0,
) -> Students:
    """Weights of students and teachers ~ N(0, 1/d), inputs ~ N(0, I).

    active  students of this width, written in d with zeros for the rest; 0: d
    """
    active = active or d
    drawn = [
        torch.randn(count, n_layers, active, active, generator=generator, dtype=torch.float64)
        / active**0.5
        for _ in range(2)
    ]
    inputs = torch.randn(count, n_rounds, active, generator=generator, dtype=torch.float64)
    idle = d - active
    weights, teacher = (nn.functional.pad(w, (0, idle, 0, idle)) for w in drawn)
    return Students(weights, teacher, nn.functional.pad(inputs, (0, idle)), lr)


@dataclass(frozen=True)
class Chain:
    """All blocks of a run of SGD, one column of each.

    forward   (K, L, N + 1, R): F_0 .. F_N of every round
    backward  (K, L + 1, N + 1, R): B_1 .. B_{N+1} after every round; at 0 those of the prompt
    """

    students: Students
    forward: Tensor
    backward: Tensor

    def weights(self, round_: int) -> Tensor:
        """(K, N, d, d): after so many rounds."""
        layout = backward_layout(self.students.d)
        return layout.unpack(self.backward[:, round_, :-1])["weight"]

    def forward_pairs(self) -> tuple[Tensor, Tensor]:
        """What the forward operator sees (M, 2R) and has to write (M, R)."""
        above, below = self.forward[:, :, :-1], self.backward[:, :-1, :-1]
        return torch.cat([above, below], -1).flatten(0, 2), self.forward[:, :, 1:].flatten(0, 2)

    def backward_pairs(self) -> tuple[Tensor, Tensor]:
        """What the backward operator sees (M, 2R) and has to write (M, R)."""
        above, below = self.backward[:, 1:, 1:], self.forward[:, :, 1:]
        return torch.cat([above, below], -1).flatten(0, 2), self.backward[:, 1:, :-1].flatten(0, 2)


Operator = Callable[[Tensor], Tensor]


def exact_chain(students: Students) -> Chain:
    """Run SGD and write it down."""
    d, lr = students.d, students.lr
    return roll_out(
        students, lambda seen: exact_forward(seen, d), lambda seen: exact_backward(seen, d, lr)
    )


def roll_out(students: Students, forward_: Operator, backward_: Operator) -> Chain:
    """The chain that two operators write, each block seeing the two that dynamic masking shows it.

    Operators take (K, 2R) and give (K, R).
    """
    d = students.d
    F, B = forward_layout(d), backward_layout(d)
    state = prompt_blocks(B, students.weights)
    forward, backward = [], [state]
    for round_ in range(students.n_rounds):
        blocks = [first_block(F, students.inputs[:, round_])]
        for i in range(students.n_layers):
            blocks.append(forward_(torch.cat([blocks[-1], state[:, i]], -1)))
        out = F.unpack(blocks[-1])["output"]
        written = [last_block(B, 2 * (out - students.labels(round_)))]
        for i in reversed(range(students.n_layers)):
            written.append(backward_(torch.cat([written[-1], blocks[i + 1]], -1)))
        state = torch.stack(written[::-1], 1)
        forward.append(torch.stack(blocks, 1))
        backward.append(state)
    return Chain(students, torch.stack(forward, 1), torch.stack(backward, 1))


def exact_forward(seen: Tensor, d: int) -> Tensor:
    """(.., 2R) -> (.., R): the operator itself."""
    F, B = forward_layout(d), backward_layout(d)
    above, below = F.unpack(seen[..., : F.width]), B.unpack(seen[..., F.width :])
    z = _apply(below["weight"], above["output"])
    slots = {
        "output": z.relu(),
        "input": above["output"],
        "slope": (z > 0).to(z.dtype),
        "weight": below["weight"],
        "one": above["one"],
    }
    return F.pack(slots, dtype=z.dtype, batch=tuple(z.shape[:-1]))


def exact_backward(seen: Tensor, d: int, lr: float) -> Tensor:
    """(.., 2R) -> (.., R): the operator itself."""
    F, B = forward_layout(d), backward_layout(d)
    above, below = B.unpack(seen[..., : B.width]), F.unpack(seen[..., B.width :])
    delta = above["signal"] * below["slope"]
    moved = delta.unsqueeze(-1) * below["input"].unsqueeze(-2)
    slots = {
        "delta": delta,
        "signal": _apply(below["weight"].mT, delta),
        "weight": below["weight"] - lr * moved,
    }
    return B.pack(slots, dtype=delta.dtype, batch=tuple(delta.shape[:-1]))


def first_block(layout: Layout, x: Tensor) -> Tensor:
    """F_0: the example."""
    return layout.pack({"output": x, "one": 1.0}, dtype=x.dtype, batch=tuple(x.shape[:-1]))


def last_block(layout: Layout, signal: Tensor) -> Tensor:
    """B_{N+1}: the derivative of the loss, so that one operator covers the last layer too."""
    return layout.pack({"signal": signal}, dtype=signal.dtype, batch=tuple(signal.shape[:-1]))


def prompt_blocks(layout: Layout, weights: Tensor) -> Tensor:
    """(K, N + 1, R): B_1 .. B_N before the first round, and no signal."""
    given = layout.pack({"weight": weights}, dtype=weights.dtype, batch=tuple(weights.shape[:2]))
    return torch.cat([given, torch.zeros_like(given[:, :1])], 1)


def _apply(matrices: Tensor, vectors: Tensor) -> Tensor:
    return (matrices @ vectors.unsqueeze(-1)).squeeze(-1)
