"""Whether a user's loss is what every construction assumes: a function of one score and one target at a time.

A head or a ReLU unit sees one s and one y. A loss that mixes outputs (softmax cross-entropy), examples (a
mean, a normalisation over the batch) or calls (dropout) has a slope that no such unit computes: compiling it
would give a program that descends something else. Each property is checked on samples of the certified
range, before anything is compiled.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from icgd.errors import InvalidParameter
from icgd.problems.losses import Loss, built_in

SHAPE = (4, 3)
"""Examples and outputs of a sample: enough of both to see one depend on another."""
DRAWS = 3
RELATIVE = 1e-9
"""Differences below this part of the largest number are rounding."""
INTEGRATION = 0.02
"""What Simpson's rule may miss on 4000 intervals, where the slope has corners or jumps."""
JUMP = 1e-2
"""Jumps of a slope below this part of its size are left to the fit's certificate."""
FORMS = ("link", "residual", "margin", "joint")


def check_entrywise(loss: Loss, radius: float, y_radius: float) -> None:
    """Refuse a loss whose slope at one entry is not a function of that entry's s and y alone.

    radius, y_radius  ranges of s and y in which a construction will ask for the slope

    >>> from icgd.problems import link_loss
    >>> check_entrywise(link_loss(lambda s: torch.softmax(s, -1), "mine"), 8.0, 1.0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    icgd.errors.InvalidParameter: `loss` must treat every output of every example by itself. Got 'mine'. ...
    """
    if loss.form not in FORMS:
        raise InvalidParameter("form", loss.form, f"be one of {', '.join(FORMS)}")
    generator = torch.Generator().manual_seed(0)
    known = built_in(loss.name)
    if known is None and loss.value is None and loss.form != "link":
        raise InvalidParameter(
            "value",
            None,
            f"be given for a loss of form {loss.form!r}",
            remedy="Only a link determines it: use icgd.residual_loss, margin_loss or joint_loss.",
        )
    for _ in range(DRAWS):
        s = _drawn(radius, generator)
        y = _drawn(y_radius, generator)
        y = torch.where(y < 0, -1.0, 1.0).to(y) if loss.form == "margin" else y
        slope = _slope(loss, s, y)
        if known is not None:
            _check_name(loss, slope, known.slope_of(s, y))
            continue
        _check_repeatable(loss, slope, _slope(loss, s, y))
        _check_mixed_derivatives(loss, s, y)
        _check_value(loss, s, y)
        _check_alone(loss, s, y, slope)
    if known is None:
        for target in (
            (-1.0, 1.0) if loss.form == "margin" else (-y_radius, 0.0, y_radius / 2, y_radius)
        ):
            _check_finite(loss, radius, target)
            _check_continuous(loss, radius, target)
            _check_integral(loss, radius, target)


def _drawn(radius: float, generator: torch.Generator) -> Tensor:
    return radius * (2 * torch.rand(*SHAPE, generator=generator, dtype=torch.float64) - 1)


def _called(loss: Loss, f: Callable[[Tensor, Tensor], Tensor], s: Tensor, y: Tensor) -> Tensor:
    """f(s, y), or what is wrong with a function that cannot be called so or changes what it is given."""
    ours, theirs = s.detach().clone(), y.clone()
    try:
        value = f(s, y)
    except (TypeError, ValueError, RuntimeError, IndexError, AttributeError) as error:
        raise InvalidParameter(
            "loss",
            loss.name,
            "be a function of torch tensors, entry by entry",
            remedy=f"On tensors of shape {tuple(s.shape)} it raises {type(error).__name__}: {error}",
        ) from None
    if not isinstance(value, Tensor):
        raise InvalidParameter(
            "loss",
            loss.name,
            "be a function of torch tensors, entry by entry",
            remedy=f"It returns {type(value).__name__}, and must return a tensor.",
        )
    if not (torch.equal(s.detach(), ours) and torch.equal(y, theirs)):
        raise InvalidParameter(
            "loss",
            loss.name,
            "leave its arguments as they are",
            remedy="Replace operations in place (relu_, +=) by those that return a new tensor.",
        )
    return value


def _slope(loss: Loss, s: Tensor, y: Tensor) -> Tensor:
    """d l / d s, looking at what the user's own function returns before anything is added to it."""

    def own(at: Tensor, target: Tensor) -> Tensor:
        return loss.slope(at, target) if loss.form == "joint" else loss.slope(at)

    value = _called(loss, own, s, y)
    if value.shape != s.shape:
        raise _one_number_per_entry(loss, "slope", value, s)
    return loss.slope_of(s, y)


def _one_number_per_entry(loss: Loss, what: str, value: Tensor, s: Tensor) -> InvalidParameter:
    return InvalidParameter(
        "loss",
        loss.name,
        "give one number per entry",
        remedy=f"Its {what} has shape {tuple(value.shape)} for s of shape {tuple(s.shape)}. Leave mean() and "
        "sum() out (reduction='none'): the package takes the mean over examples and the sum over outputs.",
    )


def _coupled(loss: Loss, evidence: str) -> InvalidParameter:
    return InvalidParameter(
        "loss",
        loss.name,
        "treat every output of every example by itself",
        remedy=f"{evidence} No construction computes the slope of a loss that couples entries, such as "
        "softmax cross-entropy. For classes take loss='logistic' with one 0/1 target per class; write any "
        "other loss as a function of one output and its target.",
    )


def _not_differentiable(loss: Loss, what: str) -> InvalidParameter:
    return InvalidParameter(
        "loss",
        loss.name,
        "be differentiable by torch.autograd",
        remedy=f"Its {what} does not depend on s, or not through torch: leave detach(), item(), numpy and "
        "no_grad out.",
    )


def _check_name(loss: Loss, slope: Tensor, known: Tensor) -> None:
    """Built-in names choose exact units of their own, whatever function the Loss carries."""
    if not bool((slope - known).abs().max() <= RELATIVE * known.abs().max()):
        raise InvalidParameter(
            "name",
            loss.name,
            "not be that of a built-in loss whose slope it does not have",
            remedy="Rename the loss.",
        )


def _check_repeatable(loss: Loss, first: Tensor, second: Tensor) -> None:
    if not torch.allclose(first, second, rtol=0.0, atol=0.0, equal_nan=True):
        raise InvalidParameter(
            "loss",
            loss.name,
            "give the same slope for the same numbers every time",
            remedy="Weights are compiled once: leave random draws and counters out of it.",
        )


def _check_mixed_derivatives(loss: Loss, s: Tensor, y: Tensor) -> None:
    """d2 l / ds_i ds_j = 0 for i != j, by autograd."""
    point = s.clone().requires_grad_(True)
    with torch.enable_grad():
        slope = loss.slope_of(point, y).reshape(-1)
        if not slope.requires_grad:
            if loss.form == "link" and bool((slope + y.reshape(-1)).diff().any()):
                raise _not_differentiable(loss, "slope")
            return
        rows = [
            torch.autograd.grad(entry, point, retain_graph=True, materialize_grads=True)[0]
            for entry in slope
        ]
    second = torch.stack([row.reshape(-1) for row in rows])
    mixed = (second - torch.diag(second.diagonal())).abs()
    if bool(mixed.max() > RELATIVE * second.abs().max()):
        i, j = divmod(int(mixed.argmax()), mixed.shape[1])
        n = SHAPE[1]
        raise _coupled(
            loss,
            f"d2 l / ds ds' = {float(second[i, j]):.3g} between output {i % n + 1} of example {i // n + 1} and "
            f"output {j % n + 1} of example {j // n + 1}.",
        )


def _check_alone(loss: Loss, s: Tensor, y: Tensor, slope: Tensor) -> None:
    """What mixed derivatives miss: a maximum over outputs has none almost everywhere, a mean none at all."""
    for i in range(SHAPE[0]):
        for k in range(SHAPE[1]):
            alone = _slope(loss, s[i, k].reshape(1), y[i, k].reshape(1))
            apart = float((alone[0] - slope[i, k]).abs())
            if apart > RELATIVE * float(slope.abs().max()):
                raise _coupled(
                    loss,
                    f"At s = {float(s[i, k]):.3g}, y = {float(y[i, k]):.3g} its slope is "
                    f"{float(alone[0]):.3g} by itself and {float(slope[i, k]):.3g} beside other entries.",
                )


def _check_value(loss: Loss, s: Tensor, y: Tensor) -> None:
    """One number per entry, which autograd can follow."""
    if loss.value is None:
        return
    point = s.clone().requires_grad_(True)
    with torch.enable_grad():
        value = _called(loss, loss.value, point, y)
    if value.shape != s.shape:
        raise _one_number_per_entry(loss, "value", value, s)
    if not value.requires_grad:
        raise _not_differentiable(loss, "value")


def _line(radius: float, n: int, target: float) -> tuple[Tensor, Tensor]:
    s = torch.linspace(-radius, radius, n, dtype=torch.float64)
    return s, torch.full_like(s, target)


def _check_finite(loss: Loss, radius: float, target: float) -> None:
    s, y = _line(radius, 101, target)
    values = [_slope(loss, s, y)] + ([] if loss.value is None else [loss.value(s, y)])
    if not all(bool(value.isfinite().all()) for value in values):
        raise InvalidParameter(
            "loss",
            loss.name,
            f"have a finite slope everywhere on |s| <= {radius:g}",
            remedy="Compile with a smaller radius, or choose another function.",
        )


def _check_continuous(loss: Loss, radius: float, target: float) -> None:
    """Halve every interval 40 times, keeping the half that changes more: what is left over is a jump."""
    s, y = _line(radius, 501, target)
    low, high = s[:-1].clone(), s[1:].clone()
    at_low, at_high = _slope(loss, low, y[1:]), _slope(loss, high, y[1:])
    size = float(torch.cat([at_low, at_high]).abs().max())
    for _ in range(40):
        middle = (low + high) / 2
        at = _slope(loss, middle, y[1:])
        left = (at - at_low).abs() > (at_high - at).abs()
        low, at_low = torch.where(left, low, middle), torch.where(left, at_low, at)
        high, at_high = torch.where(left, middle, high), torch.where(left, at, at_high)
    jump = (at_high - at_low).abs()
    at_most = int(jump.argmax())
    if float(jump[at_most]) > JUMP * size:
        raise InvalidParameter(
            "loss",
            loss.name,
            "have a continuous slope",
            remedy=f"At s = {float(low[at_most]):.3g}, y = {target:g} it jumps by {float(jump[at_most]):.3g}, "
            "which no fit follows: round the corner off, as huber does to the absolute value.",
        )


def _check_integral(loss: Loss, radius: float, target: float) -> None:
    """l(b) - l(a) is the integral of its slope; not so for steps, detach() or a custom backward."""
    if loss.value is None:
        return
    s, y = _line(radius, 8001, target)
    value, slope = loss.value(s, y).detach(), _slope(loss, s, y).detach()
    pieces = float(s[2] - s[0]) / 6 * (slope[:-2:2] + 4 * slope[1:-1:2] + slope[2::2])
    off = (value[2::2] - value[0] - pieces.cumsum(0)).abs()
    size = max(float(value.max() - value.min()), float(pieces.abs().sum()))
    at = int(off.argmax())
    if not float(off[at]) <= INTEGRATION * size:
        raise InvalidParameter(
            "loss",
            loss.name,
            "have the slope that torch.autograd gives it",
            remedy=f"Between s = {-radius:g} and {float(s[2 + 2 * at]):.3g} at y = {target:g} it changes by "
            f"{float(value[2 + 2 * at] - value[0]):.3g}, and its slope integrates to "
            f"{float(pieces[: at + 1].sum()):.3g}: it jumps, or part of it is detached.",
        )
