"""Losses l(s, y) of one example under a linear predictor s = w.x + b, and their constants.

A loss is told by how its slope d l / d s depends on s and y, because that decides which head computes
it (transformer/gadgets/heads/link_head.py):
    link      g(s) - y              generalised linear models, l = -y s + int_0^s g
    residual  psi'(s - y)           squares, Huber
    margin    y psi'(y s), y = +-1  hinges
    joint     any smooth function of (s, y)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from icgd.base.numbers import is_finite
from icgd.errors import AssumptionViolated, InvalidParameter

Form = Literal["link", "residual", "margin", "joint"]
Bend = Callable[[float], tuple[float, float]]
"""radius -> (smallest, largest) second derivative of l in s for |s| (or |s - y|) <= radius."""


@dataclass(frozen=True)
class Loss:
    """One example's loss l(s, y) and the function a head has to apply to get its slope.

    slope   g, psi', psi' or d_s l, according to `form`
    value   l(s, y); None for a user's link, whose integral is taken numerically
    bend    bounds on l'' in s; None means unknown: it is then estimated from samples
    kinked  whether slope has corners, so that no grid reads it better than one spacing
    """

    name: str
    form: Form
    slope: Callable[..., Tensor]
    value: Callable[[Tensor, Tensor], Tensor] | None = None
    bend: Bend | None = None
    kinked: bool = False

    def of(self, s: Tensor, y: Tensor) -> Tensor:
        """l(s, y), entry by entry."""
        if self.value is not None:
            return self.value(s, y)
        return _Antiderivative.apply(s, self.slope) - y * s

    def slope_of(self, s: Tensor, y: Tensor) -> Tensor:
        """d l / d s, entry by entry."""
        if self.form == "link":
            return self.slope(s) - y
        if self.form == "residual":
            return self.slope(s - y)
        if self.form == "margin":
            return y * self.slope(y * s)
        return self.slope(s, y)

    def bends(self, radius: float, y_radius: float = 0.0) -> tuple[float, float]:
        """(smallest, largest) second derivative in s on |s| <= radius, |y| <= y_radius."""
        if self.form == "residual":
            radius += y_radius  # it bends with s - y
        if self.bend is not None:
            return self.bend(radius)
        return _sampled_bends(self, radius, y_radius)


class _Antiderivative(torch.autograd.Function):
    """int_0^s g by quadrature, with g itself as the derivative: a gradient without quadrature error."""

    @staticmethod
    def forward(ctx: Any, s: Tensor, g: Callable[[Tensor], Tensor]) -> Tensor:
        """See torch.autograd.Function."""
        ctx.save_for_backward(s)
        ctx.g = g
        return _integral(g, s)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        """See torch.autograd.Function; differentiable again, because g is."""
        (s,) = ctx.saved_tensors
        return grads[0] * ctx.g(s), None


def _integral(g: Callable[[Tensor], Tensor], s: Tensor, n_nodes: int = 64) -> Tensor:
    """int_0^s g by Gauss-Legendre, exact to rounding for smooth g."""
    node, weight = _legendre(n_nodes)
    t = s.unsqueeze(-1) * node.to(s)
    return s * (g(t) @ weight.to(s))


def _legendre(n: int) -> tuple[Tensor, Tensor]:
    """Nodes and weights on [0, 1]: eigenvalues of the Jacobi matrix (Golub and Welsch)."""
    k = torch.arange(1, n, dtype=torch.float64)
    beside = k / torch.sqrt(4 * k * k - 1)
    node, vector = torch.linalg.eigh(torch.diag(beside, 1) + torch.diag(beside, -1))
    return (node + 1) / 2, vector[0] ** 2


def _sampled_bends(loss: Loss, radius: float, y_radius: float) -> tuple[float, float]:
    s = torch.linspace(-radius, radius, 2001, dtype=torch.float64)
    # The slope of a link, residual or margin bends with one number only.
    ys = torch.linspace(-y_radius, y_radius, 41, dtype=torch.float64)
    if loss.form != "joint":
        ys = ys.new_tensor([0.0 if loss.form == "residual" else 1.0])
    lowest, highest = math.inf, -math.inf
    for y in ys:
        point = s.clone().requires_grad_(True)
        with torch.enable_grad():
            slope = loss.slope_of(point, y.expand_as(point))
            bend = torch.zeros_like(s)
            if slope.requires_grad:
                (bend,) = torch.autograd.grad(slope.sum(), point)
        lowest, highest = min(lowest, float(bend.min())), max(highest, float(bend.max()))
    return lowest, highest


# -- the losses everybody knows -------------------------------------------------------------------


def _square(s: Tensor, y: Tensor) -> Tensor:
    return 0.5 * (s - y) ** 2


SQUARED = Loss("squared", "residual", lambda r: r.clone(), _square, lambda radius: (1.0, 1.0))
LOGISTIC = Loss(
    "logistic",
    "link",
    torch.sigmoid,
    # torch's softplus is linear from 20 on, and its slope off by 2e-9 there; this is exact.
    lambda s, y: torch.logaddexp(s, torch.zeros_like(s)) - y * s,
    lambda radius: (0.25 / math.cosh(min(radius, 700.0) / 2) ** 2, 0.25),
)
POISSON = Loss(
    "poisson",
    "link",
    torch.exp,
    lambda s, y: torch.exp(s) - y * s,
    lambda radius: (math.exp(-radius), math.exp(radius) if radius < 709 else math.inf),
)
SQUARED_HINGE = Loss(
    "squared_hinge",
    "margin",
    lambda m: -(1 - m).relu(),
    lambda s, y: 0.5 * (1 - y * s).relu() ** 2,
    lambda radius: (0.0, 1.0),
    kinked=True,
)


def huber(delta: float = 1.0) -> Loss:
    """r^2 / 2 up to |r| = delta, linear beyond.

    >>> huber(1.0).slope_of(torch.tensor([0.5, 3.0]), torch.tensor([0.0, 0.0])).tolist()
    [0.5, 1.0]
    """
    if not (is_finite(delta) and delta > 0):
        raise InvalidParameter("delta", delta, "be a finite number > 0")

    def value(s: Tensor, y: Tensor) -> Tensor:
        r = (s - y).abs()
        return torch.where(r <= delta, 0.5 * r * r, delta * (r - 0.5 * delta))

    return Loss(
        f"huber[{float(delta)!r}]",
        "residual",
        lambda r: r.clamp(-delta, delta),
        value,
        lambda radius: (0.0, 1.0),
        kinked=True,
    )


LINKS = {"identity": SQUARED, "logistic": LOGISTIC, "poisson": POISSON}
LOSSES = {loss.name: loss for loss in (SQUARED, LOGISTIC, POISSON, SQUARED_HINGE)}
LOSSES["huber"] = huber()


def built_in(name: str) -> Loss | None:
    """The loss of this name, "huber[delta]" included; None if it is nobody's but the user's.

    >>> built_in("huber[2.0]").name
    'huber[2.0]'
    """
    if name.startswith("huber[") and name.endswith("]"):
        return huber(float(name[len("huber[") : -1]))
    return LOSSES.get(name)


def _free(name: str) -> str:
    """A name for a user's loss: the built-in ones stand for heads of their own."""
    if name in LOSSES or name.startswith("huber["):
        raise InvalidParameter("name", name, "not be that of a built-in loss")
    return name


def link_loss(inverse_link: Callable[[Tensor], Tensor], name: str = "user link") -> Loss:
    """l(s, y) = -y s + int_0^s g of a smooth, increasing inverse link g given as a torch function."""
    return Loss(_free(name), "link", inverse_link)


def residual_loss(
    psi: Callable[[Tensor], Tensor], name: str = "user residual", *, kinked: bool = False
) -> Loss:
    """l(s, y) = psi(s - y), psi a convex torch function; `kinked` if psi' has corners.

    >>> loss = residual_loss(lambda r: torch.log(torch.cosh(r)))
    >>> bool(torch.isclose(loss.slope(torch.tensor([0.5])), torch.tanh(torch.tensor([0.5]))))
    True
    """
    return Loss(_free(name), "residual", _derivative(psi), lambda s, y: psi(s - y), kinked=kinked)


def margin_loss(
    psi: Callable[[Tensor], Tensor], name: str = "user margin", *, kinked: bool = False
) -> Loss:
    """l(s, y) = psi(y s) for labels y = +-1, psi a convex torch function."""
    return Loss(_free(name), "margin", _derivative(psi), lambda s, y: psi(y * s), kinked=kinked)


def joint_loss(loss: Callable[[Tensor, Tensor], Tensor], name: str = "user joint") -> Loss:
    """Any smooth l(s, y), convex in s, as a torch function of two tensors, entry by entry.

    A loss that couples outputs or examples (softmax cross-entropy, a mean) is refused when it is compiled.
    """

    def slope(s: Tensor, y: Tensor) -> Tensor:
        return _derivative(lambda t: loss(t, y))(s)

    return Loss(_free(name), "joint", slope, loss)


def _derivative(f: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """f' by automatic differentiation, itself differentiable."""

    def slope(s: Tensor) -> Tensor:
        point = s if s.requires_grad else s.detach().clone().requires_grad_(True)
        with torch.enable_grad():
            value = f(point)
            if not value.requires_grad:
                return torch.zeros_like(s)
            (derivative,) = torch.autograd.grad(value.sum(), point, create_graph=s.requires_grad)
        return derivative

    return slope


def forgotten_loss(name: str, form: Form, kinked: bool) -> Loss:
    """Stands for a function of the user's own, of which a saved program holds only the fitted tokens."""

    def forgotten(*_: Any) -> Any:
        raise AssumptionViolated(
            f"The {name!r} function is not stored with a program, only the tokens fitted to it: the program "
            "runs, but cannot be verified. Compile it again from the function."
        )

    return Loss(name, form, forgotten, forgotten, kinked=kinked)
