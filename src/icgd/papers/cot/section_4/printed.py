"""Section 4 of [COT] as printed, executable, with ideal parts wherever one is free.

Every function does what the page says and nothing better; heads are exact products and sums, so
that what goes wrong is the statement and not an approximation. All d columns of a printed block are
equal, so a block is one column here. The selectors are written as the paper writes them, by the
widths of their zero and identity pieces.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from icgd.papers.cot.section_4.states import LayerState
from icgd.transformer.layout import Layout, Slot

Values = dict[str, Tensor | float]

TAGS = {"F": 1.0, "B": 0.0, "X": 2.0, "Y": 2.0}


def declared_rows(d: int) -> int:
    """1 + 3d + d^2, the height printed under F_i and B_i."""
    return 1 + 3 * d + d * d


def printed_rows(d: int) -> dict[str, int]:
    """The heights that the printed pieces of the four blocks add up to.

    Statement: [COT] Definition 4.3

    Differs from the paper: no; X comes out d rows taller than the others.

    >>> printed_rows(2)
    {'X': 13, 'Y': 11, 'F': 11, 'B': 11}
    """
    return {
        "X": d + (3 * d + d * d) + 1,
        "Y": d + (2 * d + d * d) + 1,
        "F": d + d + d + d * d + 1,
        "B": d + d + d * d + (d + 1),
    }


def restated_forward_rows(d: int) -> int:
    """The height of [F_{i-1}; B_i] as C.4 writes it out again.

    Statement: [COT] Theorem C.4

    Differs from the paper: no; vec(W_{i-1}) stands in B_i, which has no such rows.
    """
    forward = d + d + d + d * d + 1
    backward = d + d + d * d + d * d + (d + 1)
    return forward + backward


def printed_block(d: int, kind: str) -> Layout:
    """Rows of a printed block from top to bottom; X is cut to the height of the others."""
    out, inp, tag = Slot("out", (d,)), Slot("inp", (d,)), Slot("tag", ())
    weight = Slot("weight", (d, d), "vec(W): column by column, so the slot holds W^T")
    if kind == "F":
        return Layout([out, inp, Slot("slope", (d,)), weight, tag])
    if kind == "B":
        return Layout([out, inp, weight, Slot("zeros", (d,)), tag])
    return Layout([out, Slot("zeros", (2 * d + d * d,)), tag])


def forward_column(s: LayerState) -> Tensor:
    """One column of F_i."""
    values: Values = {
        "out": s.out,
        "inp": s.inp,
        "slope": s.slope,
        "weight": s.W.T,
        "tag": TAGS["F"],
    }
    return printed_block(len(s.out), "F").pack(values)


def backward_column(s: LayerState) -> Tensor:
    """One column of the B_i that a correct round writes."""
    values: Values = {"out": s.delta, "inp": s.signal, "weight": s.new[0].T, "tag": TAGS["B"]}
    return printed_block(len(s.delta), "B").pack(values)


def initial_column(W: Tensor) -> Tensor:
    """One column of B_i before the first round."""
    return printed_block(W.shape[0], "B").pack({"weight": W.T, "tag": TAGS["B"]})


def data_column(value: Tensor) -> Tensor:
    """One column of X_l (cut to size) or Y_l."""
    return printed_block(len(value), "X").pack({"out": value, "tag": TAGS["X"]})


def printed_update(s: LayerState, lr: float) -> Tensor:
    """The weight stored in B_i, W_i - lr delta_i o_i^T.

    Statement: [COT] Definition 4.3

    Differs from the paper: no; (4) has o_{i-1} where this has o_i.
    """
    return s.W - lr * torch.outer(s.delta, s.out)


def printed_ramp(z: Tensor, width: float) -> Tensor:
    """FFN_1, the approximate derivative of ReLU.

    Statement: [COT] equation (21)

    (relu(z) - relu(z - delta_1)) / delta_1

    Differs from the paper: no.
    """
    return (torch.relu(z) - torch.relu(z - width)) / width


def printed_gate(v: Tensor, slope: Tensor, bound: float) -> Tensor:
    """FFN_3, the product of v with a slope that is 0 or 1, for |v| <= B_1.

    Statement: [COT] Section C.5, Step 2

    relu(v + 2 B_1 slope - B_1) - B_1 slope

    Differs from the paper: no.
    """
    return torch.relu(v + 2 * bound * slope - bound) - bound * slope


def pieces(n_rows: int, *widths: tuple[str, int]) -> Tensor:
    """A row of zero ("0") and identity ("I") pieces, as selectors are printed."""
    parts = [
        torch.eye(n_rows, width, dtype=torch.float64)
        if kind == "I"
        else torch.zeros(n_rows, width, dtype=torch.float64)
        for kind, width in widths
    ]
    return torch.cat(parts, dim=1)


def extractor(d: int) -> Tensor:
    """A* of C.5: what the backward step keeps of [B_{i+1}; F_i].

    Statement: [COT] Section C.5, Step 1

    Differs from the paper: no; it has 2(1 + 3d + d^2) - 1 columns, one less than its input has rows.
    """
    middle, last = d * d + 2 * d + 1, 2 * d + d * d
    return torch.cat(
        [
            pieces(d, ("I", d), ("0", d), ("0", middle), ("0", last)),
            pieces(d, ("0", d), ("I", d), ("0", middle), ("0", last)),
            pieces(last, ("0", d), ("0", d), ("0", middle), ("I", last)),
        ]
    )


def extracted(d: int) -> Layout:
    """What the rows of A*(Z) are said to hold."""
    return Layout(
        [
            Slot("delta_next", (d,)),
            Slot("signal_next", (d,)),
            Slot("inp", (d,)),
            Slot("slope", (d,)),
            Slot("weight", (d, d)),
        ]
    )


def input_selector(d: int) -> Tensor:
    """E of (27), meant to pick o_{i-1} out of A*(Z).

    Statement: [COT] equation (27)

    Differs from the paper: no; it picks the first d rows, and is d columns too wide.
    """
    return pieces(d, ("I", d), ("0", d * d + 4 * d))


def printed_backward(s: LayerState, above: LayerState, lr: float) -> dict[str, Tensor]:
    """F_backprop of (27) with exact heads, for a hidden layer i and the layer above it.

    Statement: [COT] Theorem 4.2

    Differs from the paper: A* gets the column it lacks and E loses the columns it has too many of,
    or nothing could be multiplied; Step 5 is taken at its word, with rows of W.
    """
    d = len(s.out)
    Z = torch.cat([backward_column(above), forward_column(s)])
    kept = torch.nn.functional.pad(extractor(d), (0, 1)) @ Z
    parts = extracted(d).unpack(kept)
    bound = 2.0 * float(parts["signal_next"].abs().max())
    delta = printed_gate(parts["signal_next"], parts["slope"], bound)
    inputs = input_selector(d)[:, : len(kept)] @ kept
    W = parts["weight"].T
    return {
        "out": delta,
        "inp": torch.stack([W[h, :] @ delta for h in range(d)]),
        "weight": W - lr * torch.outer(delta, inputs),
    }


def first_extractor_widths(d: int) -> tuple[int, int]:
    """Columns of the two rows of A_3 in C.6, which are stacked on one another.

    Statement: [COT] Section C.6

    Differs from the paper: no; a matrix cannot have rows of two lengths.
    """
    top = pieces(d, ("0", 1 + 3 * d + d * d), ("I", d), ("0", 2 * d + d * d + 1))
    bottom = pieces(d * d, ("0", 2 * d), ("I", d * d), ("0", d + 1))
    return top.shape[1], bottom.shape[1]


def printed_output_update(s: LayerState, y: Tensor, lr: float) -> Tensor:
    """W_N as C.7 leaves it: delta_N = 2 (y - o_N) slope, W_N - lr delta_N o_N^T.

    Statement: [COT] Proposition 4.2

    Differs from the paper: no.
    """
    delta = 2 * (y - s.out) * s.slope
    return s.W - lr * torch.outer(delta, s.out)


def output_update_with_input(s: LayerState, y: Tensor, lr: float) -> Tensor:
    """The same with o_{N-1} in place of o_N, so that the sign alone is on trial."""
    return s.W - lr * torch.outer(2 * (y - s.out) * s.slope, s.inp)


# -- the router of C.8 ---------------------------------------------------------------------------

TYPES = {"forward": ("F", "B"), "backward": ("B", "F"), "x": ("B", "X"), "y": ("F", "Y")}


def tag_form(gate: str, top: float, bottom: float) -> float:
    """What a gate multiplies with M: 0 should mean open, at most -1 shut.

    Statement: [COT] Section C.8, Step 1

    Differs from the paper: no.
    """
    forms = {
        "forward": top - bottom - 1,
        "backward": -top - bottom + 1,
        "x": -top + bottom - 1,
        "y": top + bottom - 3,
    }
    return forms[gate]


def shifted_gate(w: Tensor, m: float) -> Tensor:
    """sigma_0(w) = relu(w + M/2) - M/2, said to be 0 for w <= -M/2.

    Statement: [COT] Section C.8, Step 2

    Differs from the paper: no; it is -M/2 there.
    """
    return torch.relu(w + m / 2) - m / 2


def sub_network(kind: str, Z: Tensor, d: int, lr: float) -> Tensor:
    """One of the four sub-networks with exact parts and every other erratum mended, no bias.

    Statement: [COT] Section C.8, Step 3

    Differs from the paper: correct products; the output tag is written by a bias, as in (22).
    """
    read = Layout.stack(
        top=printed_block(d, TYPES[kind][0]), bottom=printed_block(d, TYPES[kind][1])
    )
    slot = read.unpack(Z)
    if kind in ("forward", "x"):
        W = slot["bottom/weight" if kind == "forward" else "top/weight"].T
        inp = slot["top/out" if kind == "forward" else "bottom/out"]
        z = W @ inp
        slope = (z > 0).to(z.dtype)
        forward: Values = {"out": z.relu(), "inp": inp, "slope": slope, "weight": W.T}
        return printed_block(d, "F").pack({**forward, "tag": TAGS["F"]})
    own = "bottom" if kind == "backward" else "top"
    error = slot["top/inp"] if kind == "backward" else slot["top/out"] - slot["bottom/out"]
    delta, W = error * slot[f"{own}/slope"], slot[f"{own}/weight"].T
    W_new = W - lr * torch.outer(delta, slot[f"{own}/inp"])
    backward: Values = {"out": delta, "inp": W.T @ delta, "weight": W_new.T, "tag": TAGS["B"]}
    return printed_block(d, "B").pack(backward)


def printed_universal(Z: Tensor, d: int, lr: float, *, ideal_tags: str | None = None) -> Tensor:
    """TF = A o F_sum o R: four gates, four sub-networks, one sum.

    Statement: [COT] Proposition 4.3

    Differs from the paper: no; `ideal_tags` names the type and replaces the four tag forms by ones
    that are 0 on it and -1 elsewhere, to try sigma_0 by itself.
    """
    m = 2.0 * float(Z.abs().max())
    r_u, r_v = d * d + 3 * d + 1, 2 * d * d + 6 * d + 2
    top, bottom = float(Z[r_u - 1]), float(Z[r_v - 1])
    total = torch.zeros(declared_rows(d), dtype=Z.dtype)
    for gate in TYPES:
        form = tag_form(gate, top, bottom)
        if ideal_tags is not None:
            form = 0.0 if gate == ideal_tags else -1.0
        total = total + sub_network(gate, shifted_gate(Z + m * form, m), d, lr)
    return total


def one_hot_universal(kind: str, Z: Tensor, d: int, lr: float) -> Tensor:
    """The same sum behind a perfect router: Z for its own sub-network, zeros for the others.

    Statement: [COT] Section C.8, Step 3

    Differs from the paper: the router is assumed to work.
    """
    return torch.stack(
        [sub_network(k, Z if k == kind else torch.zeros_like(Z), d, lr) for k in TYPES]
    ).sum(dim=0)


def typed_inputs(
    states: Sequence[LayerState], x: Tensor, y: Tensor
) -> dict[str, tuple[Tensor, Tensor]]:
    """For each type a stacked input of a round through at least two layers, and its right output."""
    low, last = states[-2], states[-1]
    return {
        "forward": (torch.cat([forward_column(low), initial_column(last.W)]), forward_column(last)),
        "backward": (torch.cat([backward_column(last), forward_column(low)]), backward_column(low)),
        "x": (torch.cat([initial_column(states[0].W), data_column(x)]), forward_column(states[0])),
        "y": (torch.cat([forward_column(last), data_column(y)]), backward_column(last)),
    }


def across_the_jump(d: int) -> tuple[float, float]:
    """Distances of two valid x-type inputs, W_1 = I and x = +-2^-60, and of their updates.

    Statement: [COT] Proposition 4.3

    Differs from the paper: which promises one continuous map within every eps of both updates.
    """
    eye = torch.eye(d, dtype=torch.float64)
    points = [torch.full((d,), sign * 2.0**-60, dtype=torch.float64) for sign in (1, -1)]
    inputs = [torch.cat([initial_column(eye), data_column(x)]) for x in points]
    updates = [sub_network("x", Z, d, 0.0) for Z in inputs]
    near, far = (float((first - second).abs().max()) for first, second in (inputs, updates))
    return near, far
