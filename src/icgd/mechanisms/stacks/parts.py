"""Feed-forward layers that all stacks share: the loss, and clearing and projecting at a step's end."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from icgd.mechanisms.stacks.joint_loss_fit import fit_joint_slope
from icgd.mechanisms.stacks.layout import one_of
from icgd.problems import Loss
from icgd.transformer.certificate import Certificate
from icgd.transformer.gadgets.fits.relu_sum import ReluSum, fit_relu_sum
from icgd.transformer.layout import Layout
from icgd.transformer.nn.stack.stack import MlpSublayer, UnitGroup

Units = list[tuple[float, float, float, float]]
"""Units of l'(o, y): (weight of o, weight of y, constant, outer weight)."""


def loss_units(
    loss: Loss, n_relu: int, radius: float, target_radius: float
) -> tuple[Units, Certificate]:
    """Units whose sum is dl/do as a function of one output and its target, and what they promise.

    Statement: [DEEP] Lemma 4

    Differs from the paper: entry-wise losses only, l = sum_k l(o_k, y_k), where the lemma has any smooth
    l(o, y): a loss that couples outputs is refused (problems/entrywise.py). The squared loss is exact
    with two units; a loss in o - y, or a function of o minus y, needs a sum of one variable; only a joint
    loss needs one of two, fitted by least squares.
    """
    if loss.name == "squared":
        exact = Certificate("loss[squared]", math.inf, 0.0, 1.0, 4.0)
        return [(0.5, -0.5, 0.0, 2.0), (-0.5, 0.5, 0.0, -2.0)], exact
    if loss.name.startswith("huber["):
        cut = float(loss.name[len("huber[") : -1])
        size = 2 * max(1.0, cut)
        bends = [(1 / size, -1 / size, cut / size, size), (1 / size, -1 / size, -cut / size, -size)]
        return [*bends, (0.0, 0.0, 1.0, -cut)], Certificate("loss[huber]", math.inf, 0.0, 1.0, size)
    if loss.form == "residual":
        fit = _one_variable(loss, radius + target_radius, n_relu)
        pairs = zip(fit.a.tolist(), fit.c.tolist(), strict=True)
        return [(a / 2, -a / 2, b / 2, 2 * c) for (a, b), c in pairs], fit.certificate
    if loss.form == "link":
        fit = _one_variable(loss, radius, n_relu)
        pairs = zip(fit.a.tolist(), fit.c.tolist(), strict=True)
        minus_y = [(0.0, -1.0, 0.0, 1.0), (0.0, 1.0, 0.0, -1.0)]
        return [(a, 0.0, b, c) for (a, b), c in pairs] + minus_y, fit.certificate
    a, c, certificate = fit_joint_slope(loss, radius, target_radius, n_relu)
    units = zip(a.tolist(), c.tolist(), strict=True)
    return [(row[0], row[1], row[2], outer) for row, outer in units], certificate


def _one_variable(loss: Loss, radius: float, n_relu: int) -> ReluSum:
    # Nothing is known of a user's function: its bends are sampled, and the certificate says so.
    return fit_relu_sum(
        loss.slope,
        radius,
        max(1, n_relu - 1),
        second=math.inf,
        third=0.0,
        knots="adaptive",
        name=loss.name,
    )


def loss_layer(
    layout: Layout, output: Tensor, units: Units, gate: float, dtype: torch.dtype
) -> MlpSublayer:
    """g = 2 dl/do in tokens that teach, 0 in tokens that ask.

    output  coordinates of the network's output
    gate    bound on what a unit is asked: gate (1 - t) shuts all of them in a token that asks
    """
    target, written = layout.index("y"), layout.index("residual")
    one, train = int(one_of(layout)), int(layout.index("train"))
    read, w_in, write, w_out = [], [], [], []
    for k in range(len(output)):
        for a, b, constant, outer in units:
            # 1 and t first: for t = 1 they cancel exactly, before anything else is added. The constant
            # stands apart: next to the gate it would round.
            read.append([one, train, one, int(output[k]), int(target[k])])
            w_in.append([-gate, gate, constant, a, b])
            write.append(int(written[k]))
            w_out.append(2 * outer)
    group = UnitGroup(
        torch.tensor(read),
        torch.tensor(w_in, dtype=torch.float64),
        torch.tensor(write),
        torch.tensor(w_out, dtype=torch.float64),
        dtype=dtype,
    )
    return MlpSublayer({"loss": group})


def end_of_step(
    layout: Layout,
    scratch: Sequence[str],
    weights: Sequence[str],
    box: float | None,
    dtype: torch.dtype,
) -> MlpSublayer:
    """Clear the scratch slots to exact zeros: z - relu(z) + relu(-z); put the weights into the box.

    Statement: [DEEP] Theorem 1

    w - relu(w - b) + relu(-w - b) is b to the last bit for b <= w <= 2b.

    Differs from the paper: it speaks of the projection only; without clearing the next step adds up.
    """
    where = torch.cat([layout.index(name).reshape(-1) for name in scratch])
    groups = {"erase": _signed(where.unsqueeze(1), torch.ones(len(where), 1), where, dtype)}
    if box is not None:
        where = torch.cat([layout.index(name).reshape(-1) for name in weights])
        read = torch.stack([where, one_of(layout).expand_as(where)], dim=1)
        w_in = torch.tensor([1.0, -box], dtype=torch.float64).expand(len(where), 2)
        groups["box"] = _signed(read, w_in, where, dtype)
    return MlpSublayer(groups)


def _signed(read: Tensor, w_in: Tensor, write: Tensor, dtype: torch.dtype) -> UnitGroup:
    """-relu(z - ...) + relu(-z - ...): both signs of the first thing read."""
    other = w_in.clone()
    other[:, 0] *= -1
    outer = torch.ones(len(write), dtype=torch.float64)
    return UnitGroup(
        torch.cat([read, read]),
        torch.cat([w_in, other]),
        torch.cat([write, write]),
        torch.cat([-outer, outer]),
        dtype=dtype,
    )
