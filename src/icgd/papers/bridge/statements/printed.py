"""The heads of [BRIDGE], Appendix A, exactly where they are printed, on the tokens of the corrected stack.

Only the placement is the paper's; fits, tokens and everything before the part in question are ours and
right, so that what fails is the placement. Built with the same HeadFamily as the construction itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from icgd.mechanisms import compile as compile_program
from icgd.mechanisms.stacks.compile_forward_mode import forward_options
from icgd.mechanisms.stacks.forward_mode import ForwardBuilder
from icgd.mechanisms.stacks.layout import rows_of
from icgd.oracle.network_gd import network_gd_step, network_gradient
from icgd.problems import GD, Network, Weights
from icgd.problems.activations import Activation
from icgd.transformer.gadgets.fits.feature_fit import UNITS, FeatureFit, fit_features
from icgd.transformer.gadgets.fits.slope_product import fit_slope_product
from icgd.transformer.nn.stack.head_family import ACTIVATIONS, Feature, HeadFamily
from icgd.transformer.nn.stack.stack import AttentionSublayer, MlpSublayer, Stack, unwatched
from icgd.transformer.program import Program

LR, BOX = 0.3, 1.5


def far(a: Tensor, b: Tensor) -> float:
    """Largest absolute difference."""
    return float((a - b).abs().max())


def spread(values: Tensor) -> float:
    """How far tokens differ."""
    return far(values, values[:1])


@dataclass(frozen=True)
class Case:
    """A network with weights and data, its program and what the program was built from."""

    network: Network
    program: Program
    builder: ForwardBuilder
    weights: Weights
    X: Tensor
    Y: Tensor

    @property
    def n_layers(self) -> int:
        """Layers of one step."""
        assert isinstance(self.program.step, Stack)
        return self.program.step.n_layers

    def tokens(self) -> Tensor:
        """The prompt: N examples, and one token that asks for the first of them again."""
        layout, n = self.builder.layout, len(self.X)
        tokens = torch.zeros(n + 1, layout.width, dtype=torch.float64)
        tokens[:, layout.index("x")] = torch.cat([self.X, self.X[:1]])
        tokens[:n, layout.index("y")] = self.Y
        tokens[:n, layout.index("train")] = 1.0
        tokens[:, layout.index("one")] = 1.0
        for j, (W, _) in enumerate(self.weights, 1):
            tokens[:, layout.index(f"weight{j}")] = W
        return tokens

    def until(self, last: str) -> Tensor:
        """The tokens before the layer of this name, by our own layers."""
        tokens = self.tokens()
        for name, layer in self.builder.step().each():
            if name == last:
                break
            tokens = layer.collapsed(tokens, unwatched)
        return tokens

    def exact(self) -> Weights:
        """The weights after one exact step."""
        return network_gd_step(self.network.spec, self.weights, self.X, self.Y, LR, BOX)

    def outputs(self) -> list[Tensor]:
        """Exact z_1 .. z_n of every token."""
        outputs = [torch.cat([self.X, self.X[:1]]) @ self.weights[0][0].T]
        r = self.network.spec.activation_of(1).apply
        for W, _ in self.weights[1:]:
            outputs.append(r(outputs[-1]) @ W.T)
        return outputs


@lru_cache(maxsize=64)
def make_case(
    widths: tuple[int, ...] = (3, 4, 1),
    *,
    seed: int = 0,
    n: int = 20,
    activation: str = "softplus",
    attention: str = "tanh",
    n_relu: int = 200,
) -> Case:
    """Random data in [-1, 1] and weights that keep pre-activations small, without bias as printed."""
    network = Network(widths, activation, bias=False)
    program = compile_program(
        network,
        GD(LR, box=BOX),
        method="forward_mode",
        attention=attention,
        n_relu=n_relu,
        n_examples=n,
    )
    draw = torch.Generator().manual_seed(seed)
    X = 2 * torch.rand(n, widths[0], generator=draw, dtype=torch.float64) - 1
    Y = 2 * torch.rand(n, widths[-1], generator=draw, dtype=torch.float64) - 1
    weights: Weights = [(W.clamp(-BOX, BOX), None) for W, _ in network.init(seed=seed)]
    builder = ForwardBuilder(network.spec, forward_options(program.blueprint))
    return Case(network, program, builder, weights, X, Y)


def swapped(feature: Feature) -> Feature:
    """The same inner product with query and key exchanged."""
    return replace(feature, query=feature.key, key=feature.query)


def matrix_form(family: HeadFamily, tokens: Tensor) -> Tensor:
    """What heads add to every token by the first display of Definition 1, tokens as columns of H.

    Statement: [BRIDGE] Definition 1

    1/N sum_m (V_m H) sigma((Q_m H)^T (K_m H)): in column i the query is that of token j and the key that of i.

    Differs from the paper: no, but for an opening bracket.
    """
    H, act = tokens.mT, ACTIVATIONS[family.activation]
    Q, K, V = family.matrices(range(family.n_heads), tokens.shape[-1])
    scores = act((Q @ H).mT @ (K @ H))
    return ((V @ H) @ scores).sum(dim=0).mT / len(tokens)


# -- forward heads --------------------------------------------------------------------------------


def forward_heads(case: Case, p: int, *, printed: bool) -> HeadFamily:
    """z_{p+1} = W_{p+1} r(z_p) with the activations' arguments on the key side, or on the query side.

    Statement: [BRIDGE] Theorem 2

    Differs from the paper: printed=False puts them on the query side. Of layer 1 the keys can hold x_j
    only, so that the queries hold v_k, which is the same in all tokens.
    """
    b, units = case.builder, torch.arange(case.network.widths[p])
    argument = b.argument(p, units, "out")
    if printed:
        argument = swapped(argument)
    source = b.layout.index(f"weight{p + 1}").T
    target = b.layout.index(f"z{p + 1}").expand_as(source)
    return b.family([argument, b.constant(len(units))], b.value, source, target)


def forward_values(case: Case, *, printed: bool, by_matrix: bool = False) -> list[Tensor]:
    """z_2 .. z_n in every token; by_matrix: by the matrix form of Definition 1, not by that with columns."""
    tokens = case.tokens()
    for p in range(1, case.network.n_layers):
        heads = forward_heads(case, p, printed=printed)
        if by_matrix:
            tokens = tokens + matrix_form(heads, tokens)
        else:
            tokens = AttentionSublayer({"out": heads}).sparse(tokens, unwatched)
    layout = case.builder.layout
    return [tokens[:, layout.index(f"z{p}")] for p in range(2, case.network.n_layers + 1)]


# -- derivatives ----------------------------------------------------------------------------------


def derivative_heads(case: Case, p: int) -> HeadFamily:
    """dz_{p+1}/dW_p as printed: derivative and argument both on the key side, queries constant.

    Statement: [BRIDGE] Theorem 2

    Differs from the paper: slots have the index k that it drops, so that only the placement is wrong.
    """
    b = case.builder
    ours = b.derivatives(p)[f"new{p}"]
    units = torch.arange(case.network.widths[p]).repeat_interleave(case.network.widths[p - 1])
    derivative = Feature("derivative", ours.get_buffer("query_0"), ours.get_buffer("key_0"))
    features = [swapped(derivative), swapped(b.argument(p, units, "slope")), b.constant(len(units))]
    return b.family(features, b.product, ours.get_buffer("source"), ours.get_buffer("target"))


def one_slot_per_weight(case: Case, kept: int) -> Tensor:
    """d pred / dW_1 of a three-layer network if s has no index k: the derivative of unit `kept` for all k.

    Statement: [BRIDGE] Theorem 2

    Differs from the paper: ideal parts instead of fits, and the sum over k in [K_{n-1}]; over [K_n], as
    printed, it has one term.
    """
    z_1, z_2, _ = case.outputs()
    slope = case.network.spec.activation_of(1).derivative
    (_, _), (W_2, _), (W_3, _) = case.weights
    x = torch.cat([case.X, case.X[:1]])
    s = (W_2[kept] * slope(z_1)).unsqueeze(2) * x.unsqueeze(1)  # (token, i, j)
    return (slope(z_2) @ W_3[0]).reshape(-1, 1, 1) * s


def exact_derivative(case: Case) -> Tensor:
    """d pred / dW_1 of every token, by autograd: the gradient of a loss whose slope is 1."""
    x = torch.cat([case.X, case.X[:1]])
    gradients = []
    for row in x:
        W = case.weights[0][0].clone().requires_grad_(True)
        with torch.enable_grad():
            z = row @ W.T
            for later, _ in case.weights[1:]:
                z = case.network.spec.activation_of(1).apply(z) @ later.T
            gradients.append(torch.autograd.grad(z.sum(), W)[0])
    return torch.stack(gradients)


# -- the last layer -------------------------------------------------------------------------------


HALF_SQUARE = Activation("t^2/2", lambda t: t * t / 2, lambda t: t, (math.inf, 1.0, 0.0, 0.0, 0.0))


def product_fit(radius: float, attention: str, n_units: int) -> FeatureFit:
    """u v on a square, the paper's Q: s r'(t) for r(t) = t^2/2."""
    return fit_slope_product(HALF_SQUARE, radius, radius, n_units, attention)


def last_heads(
    case: Case, *, printed: bool, factor: float | None = None, by_matrix: bool = False
) -> Tensor:
    """The last matrix after the last attention layer, token by token, (tokens, K_n, K_{n-1}).

    Statement: [BRIDGE] Theorem 2

    printed  g on the query side and d pred / dw on the key side; else both on the key side
    factor   of a value; -lr (N+1)/(2N) unless given
    by_matrix  by the matrix form of Definition 1

    Differs from the paper: it prints -lr (N+1)/N.
    """
    b, layout, n = case.builder, case.builder.layout, case.network.n_layers
    tokens = case.until("descend")
    last = rows_of(case.network.spec, layout, n)
    inputs = layout.index(f"a{n - 1}").unsqueeze(1)
    units = len(inputs)
    residual = layout.index("residual").expand(units, 1)
    g = Feature("g", residual, b.ones(units))
    v = Feature("v", b.ones(units), inputs)
    features = [g if printed else swapped(g), v, b.constant(units)]
    scale = b.rate if factor is None else factor
    fit = product_fit(8.0, b.o.attention, 200)
    heads = b.family(features, fit, b.ones(units), last.reshape(-1, 1), scale)
    added = matrix_form(heads, tokens) if by_matrix else heads.sparse(tokens, unwatched)
    return (tokens + added)[:, last]


def gradient_of_last(case: Case) -> Tensor:
    """The exact gradient of the last matrix."""
    return network_gradient(case.network.spec, case.weights, case.X, case.Y)[-1][0]


# -- feed-forward layers --------------------------------------------------------------------------


def masked_output(
    sigma: str, radius: float, shift: float, *, n_units: int = 50
) -> tuple[float, float]:
    """Largest output in a token that asks, and error in one that teaches, of units shifted by -shift (1-t).

    Statement: [BRIDGE] Theorem 2

    Differs from the paper: no; its shift is R_2, the range of the fit.
    """
    fit = fit_features(lambda p: 2 * (p[..., 0] - p[..., 1]), (radius, radius), n_units, sigma)
    line = torch.linspace(-radius, radius, 21, dtype=torch.float64)
    points = torch.cartesian_prod(line, line)
    inner = points @ fit.a[:, :-1].T + fit.a[:, -1]
    closed = UNITS[sigma](inner - shift) @ fit.c
    opened = UNITS[sigma](inner) @ fit.c - 2 * (points[:, 0] - points[:, 1])
    return float(closed.abs().max()), float(opened.abs().max())


def without_clearing(case: Case, steps: int) -> tuple[float, float]:
    """(largest scratch number left, error of the last step) if the last layer only projects.

    Statement: [BRIDGE] Remark 1

    Differs from the paper: no; it mentions no other task of that layer.
    """
    stack, layout = case.builder.step(), case.builder.layout
    end = stack.sublayers["end"]
    assert isinstance(end, MlpSublayer)
    del end.groups["erase"]
    tokens, weights, off = case.tokens(), case.weights, 0.0
    for _ in range(steps):
        tokens = stack(tokens)
        exact = network_gd_step(case.network.spec, weights, case.X, case.Y, LR, BOX)
        moved: Weights = [
            (tokens[0, layout.index(f"weight{j}")], None) for j in range(1, len(weights) + 1)
        ]
        off = max(float((a - b).abs().max()) for (a, _), (b, _) in zip(moved, exact, strict=True))
        weights = moved
    keep = {"x", "y", "one", "train"} | {f"weight{j}" for j in range(1, len(weights) + 1)}
    left = max(
        float(tokens[:, layout.slice(s.name)].abs().max()) for s in layout if s.name not in keep
    )
    return left, off
