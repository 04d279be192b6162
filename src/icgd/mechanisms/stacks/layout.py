"""The token of a stack: the whole state of training, slot by slot."""

from __future__ import annotations

import torch
from torch import Tensor

from icgd.problems import NetworkSpec
from icgd.transformer.layout import Layout, Slot


def weight_slots(spec: NetworkSpec) -> list[Slot]:
    """w, equal in all tokens: the rows of every layer's matrix, then its bias."""
    slots = []
    for j in range(1, spec.n_layers + 1):
        out, inp = spec.widths[j], spec.widths[j - 1]
        slots.append(Slot(f"weight{j}", (out, inp), f"W_{j}"))
        if spec.bias:
            slots.append(Slot(f"bias{j}", (out,), f"b_{j}"))
    return slots


def data_slots(spec: NetworkSpec) -> list[Slot]:
    """x and y of an example."""
    return [
        Slot("x", (spec.widths[0],), "input of the example", each=True),
        Slot("y", (spec.widths[-1],), "target; zero in a token that asks", each=True),
    ]


def flag_slots() -> list[Slot]:
    """1 in every token, and whether the token is an example to learn from."""
    return [
        Slot("one", (), "the constant 1"),
        Slot("train", (), "t: 1 for examples, 0 for tokens that ask", each=True),
    ]


def reverse_layout(spec: NetworkSpec) -> Layout:
    """x | y | w | p(1..N) | r'(1..N) | g | s(1..N) | 1 | t.

    Statement: [DEEP] Theorem 1

    Differs from the paper: biases stand behind their matrix, and slots have names.
    """
    layers = range(1, spec.n_layers + 1)
    width = spec.widths
    return Layout(
        [
            *data_slots(spec),
            *weight_slots(spec),
            *(Slot(f"out{j}", (width[j],), f"p({j}) = r(z_{j})", each=True) for j in layers),
            *(Slot(f"slope{j}", (width[j],), f"r'(z_{j})", each=True) for j in layers),
            Slot("residual", (width[-1],), "g: twice dl/do, 0 in a token that asks", each=True),
            *(
                Slot(f"signal{j}", (width[j],), f"s({j}) = twice dl/dz_{j}", each=True)
                for j in layers
            ),
            *flag_slots(),
        ]
    )


def one_of(layout: Layout) -> Tensor:
    """The coordinate of the constant 1, shape (1,)."""
    return layout.index("one").reshape(1)


def rows_of(spec: NetworkSpec, layout: Layout, j: int) -> Tensor:
    """Coordinates of the rows of layer j's weights, (width_j, width_{j-1} [+ 1 for the bias])."""
    rows = layout.index(f"weight{j}")
    if spec.bias:
        rows = torch.cat([rows, layout.index(f"bias{j}").unsqueeze(1)], dim=1)
    return rows


def inputs_of(spec: NetworkSpec, layout: Layout, j: int, stem: str = "out") -> Tensor:
    """Coordinates of what layer j reads: p(j-1), and the 1 its bias is multiplied with."""
    inputs = layout.index("x" if j == 1 else f"{stem}{j - 1}")
    return torch.cat([inputs, one_of(layout)]) if spec.bias else inputs


def own_coordinates(layout: Layout) -> Tensor:
    """True where every token has a number of its own."""
    own = torch.zeros(layout.width, dtype=torch.bool)
    for slot in layout:
        own[layout.slice(slot.name)] = slot.each
    return own
