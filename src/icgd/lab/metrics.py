"""Numbers about predictions (B, n, d_y): losses and R2 by position, cosines, similarity of errors.

Position i of every function is position i of the prompts; nothing here knows which positions count, except
`mean_loss`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from icgd.errors import InvalidParameter
from icgd.lab.tasks.batch import Batch

Predictor = Callable[[Batch], Tensor]
"""A model or a baseline: (B, n, d_y) predictions of a batch."""


def _same_shape(first: Tensor, second: Tensor, name: str) -> None:
    if first.shape != second.shape or first.dim() != 3:
        raise InvalidParameter(
            name,
            tuple(second.shape),
            f"be (B, n, d_y), like {tuple(first.shape)} beside it",
        )


# -- losses ------------------------------------------------------------------------------------------


def squared_errors(predictions: Tensor, targets: Tensor) -> Tensor:
    """(B, n): squared errors, the mean over outputs."""
    _same_shape(predictions, targets, "targets")
    return (predictions.double() - targets.double()).square().mean(-1)


def loss_per_position(predictions: Tensor, targets: Tensor) -> Tensor:
    """(n,): mean squared error over prompts and outputs."""
    return squared_errors(predictions, targets).mean(0)


def r2_per_position(predictions: Tensor, targets: Tensor) -> Tensor:
    """(n,): R2 pooled over prompts and outputs, at each position.

        R2_i = 1 - sum_b |y_bi - p_bi|^2 / sum_b |y_bi - ybar_i|^2,   ybar_i = mean_b y_bi, for each output

    So the mean over *prompts* has R2 = 0, and what prompts differ in counts as explained. Where all targets
    are equal R2 is NaN.

    >>> y = torch.tensor([1.0, 2.0, 3.0]).reshape(3, 1, 1)
    >>> r2_per_position(y, y).item(), r2_per_position(torch.full_like(y, 2.0), y).item()
    (1.0, 0.0)
    """
    _same_shape(predictions, targets, "targets")
    targets, predictions = targets.double(), predictions.double()
    spread = (targets - targets.mean(0)).square().sum((0, 2))
    ratio = (predictions - targets).square().sum((0, 2)) / spread
    return torch.where(spread > 0, 1 - ratio, torch.nan)


def excess_loss(
    predictions: Tensor, baseline: Tensor, targets: Tensor, *, relative: bool = False
) -> Tensor:
    """(n,): loss minus the baseline's loss by position, or divided by it minus 1 if relative."""
    ours, theirs = loss_per_position(predictions, targets), loss_per_position(baseline, targets)
    return ours / theirs - 1 if relative else ours - theirs


# -- cosines -----------------------------------------------------------------------------------------


def _cosine(first: Tensor, second: Tensor) -> Tensor:
    """Over the last axis; NaN where a vector is 0, which has no direction."""
    return (_direction(first) * _direction(second)).sum(-1)


def _direction(vectors: Tensor) -> Tensor:
    vectors = vectors.double()
    # By the largest entry first: squares of small numbers underflow, of large ones overflow.
    vectors = vectors / vectors.abs().amax(-1, keepdim=True)
    return vectors / vectors.norm(dim=-1, keepdim=True)


def cosine_per_position(first: Tensor, second: Tensor) -> Tensor:
    """(n,): cosine of two predictors' predictions, as vectors over prompts and outputs at each position."""
    _same_shape(first, second, "second")
    return _cosine(*(part.transpose(0, 1).flatten(1) for part in (first, second)))


def query_gradients(
    predict: Predictor, batch: Batch, positions: Sequence[int] | None = None
) -> Tensor:
    """(B, P, d_y, d_x): derivatives of the prediction at position i in its own input x_i.

    Prompts must not influence each other. One backward pass per position and output.

    positions  counted from 0; all unless given
    """
    chosen = range(batch.n_points) if positions is None else positions
    with torch.enable_grad():
        xs = batch.xs.detach().clone().requires_grad_()
        outputs = predict(Batch(xs, batch.ys, batch.kind, batch.counted))
        if not outputs.requires_grad:
            raise InvalidParameter("predict", predict, "be differentiable in the inputs")
        rows = []
        for i in chosen:
            of_outputs = []
            for o in range(outputs.shape[2]):
                (slope,) = torch.autograd.grad(outputs[:, i, o].sum(), xs, retain_graph=True)
                of_outputs.append(slope[:, i])
            rows.append(torch.stack(of_outputs, 1))
    return torch.stack(rows, 1)


def cosine_of_gradients(
    first: Predictor, second: Predictor, batch: Batch, positions: Sequence[int] | None = None
) -> Tensor:
    """(P,): mean over prompts of the cosine of both predictors' `query_gradients`.

    Prompts in which a gradient is 0 are left out; NaN where it is 0 in all of them.
    """
    a, b = (query_gradients(predict, batch, positions) for predict in (first, second))
    return _cosine(a.flatten(2), b.flatten(2)).nanmean(0)


# -- similarity of errors -----------------------------------------------------------------------------


def similarity_of_errors(first: Tensor, second: Tensor, targets: Tensor) -> Tensor:
    """How alike two predictors err: the cosine of their errors along a prompt, averaged over prompts.

    The errors of a prompt are the vector of p - y over positions and outputs. Prompts without an error in one
    of the two are left out.
    """
    a, b = _errors(first, targets), _errors(second, targets)
    return _cosine(a.flatten(1), b.flatten(1)).nanmean()


def similarity_of_errors_per_position(first: Tensor, second: Tensor, targets: Tensor) -> Tensor:
    """(n,): the cosine of both predictors' errors over prompts and outputs, at each position."""
    return cosine_per_position(_errors(first, targets), _errors(second, targets))


def best_matching_iterate(
    predictions: Tensor, iterates: Tensor, targets: Tensor
) -> tuple[Tensor, Tensor]:
    """(n,), (n,): for each position the iterate whose errors are most alike, and how alike they are.

    iterates  (K, B, n, d_y), such as `GradientDescent(n_steps=K - 1).iterates(batch)`

    Where no iterate has a direction to compare (an error of 0), the index is -1 and the similarity NaN.
    """
    if iterates.dim() != 4 or iterates.shape[1:] != predictions.shape:
        raise InvalidParameter(
            "iterates",
            tuple(iterates.shape),
            f"be (K, B, n, d_y) with {tuple(predictions.shape)} in the end",
        )
    alike = torch.stack(
        [similarity_of_errors_per_position(predictions, one, targets) for one in iterates]
    )
    best, index = torch.where(alike.isnan(), -torch.inf, alike).max(0)
    nothing = best.isinf()
    return torch.where(nothing, -1, index), torch.where(nothing, torch.nan, best)


def _errors(predictions: Tensor, targets: Tensor) -> Tensor:
    _same_shape(predictions, targets, "targets")
    return predictions.double() - targets.double()


# -- interpolation ------------------------------------------------------------------------------------

Interpolated = TypeVar("Interpolated", Tensor, Mapping[str, Tensor])


def interpolate(first: Interpolated, second: Interpolated, at: float) -> Interpolated:
    """(1 - at) * first + at * second: of tensors, or of two models' state dicts, name by name.

    Numbers that are not floating point must be the same in both.

    >>> interpolate(torch.tensor([0.0, 2.0]), torch.tensor([4.0, 2.0]), 0.25)
    tensor([1., 2.])
    """
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return _between("second", first, second, at)
    assert isinstance(first, Mapping)
    assert isinstance(second, Mapping)
    if set(first) != set(second):
        odd = sorted(set(first) ^ set(second))
        raise InvalidParameter(
            "second", odd, "have the names of `first`", remedy="These are in one of them only."
        )
    return {name: _between(name, first[name], second[name], at) for name in first}


def _between(name: str, first: Tensor, second: Tensor, at: float) -> Tensor:
    if first.shape != second.shape or first.dtype != second.dtype:
        raise InvalidParameter(
            name,
            (tuple(second.shape), second.dtype),
            f"be {(tuple(first.shape), first.dtype)} in both",
        )
    if first.is_floating_point():
        return (1 - at) * first + at * second
    if not torch.equal(first, second):
        raise InvalidParameter(name, "two values", "be equal in both, as it is not floating point")
    return first
