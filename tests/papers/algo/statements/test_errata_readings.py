"""docs/errata_algo.md, class "reading": the proofs of [ALGO] read so that they hold, built and run.

Judges are autograd, solved regressions, and series and chains whose continuation is known.
"""

from __future__ import annotations

from decimal import Decimal, localcontext

import pytest
import torch
from sequence_cases import F64, SeriesCase, descend, leaky, off
from torch import nn

import icgd
from icgd.mechanisms.loops.common.parts import MlpBuilder, binary_codes
from icgd.oracle.least_squares import least_squares, newton_matrix, prefix_gd
from icgd.papers.algo.statements import decoder as algo_decoder
from icgd.papers.algo.statements import decoder_printed as decoder
from icgd.papers.algo.statements import newton as algo_newton
from icgd.papers.algo.statements import newton_printed as newton
from icgd.papers.algo.statements import readings as readings
from icgd.papers.algo.statements import regression as algo_regression
from icgd.papers.algo.statements import regression_printed as regression
from icgd.papers.algo.statements import sequences as algo_sequences
from icgd.papers.algo.statements import sequences_printed as sequences
from icgd.transformer.nn.stack.stack import unwatched

seeds = pytest.mark.parametrize("seed", range(3))
SIZES = [(3, 7), (5, 20), (20, 40)]


def autograd_step(case, A):
    """A - lr dL/dA with the gradient from autograd."""
    A = A.clone().requires_grad_(True)
    (0.5 * (case.phi @ A.T - case.Y).square().sum(dim=1).mean()).backward()
    return (A - case.lr * A.grad).detach()


# -- Lemma A.2 and Theorem 3.1 --------------------------------------------------------------------


@seeds
@pytest.mark.parametrize("size", SIZES)
def test_a_row_of_its_own_descends(size, seed):
    """c dL/dA x beside the residuals and -lr/c on it in a ReLU layer: a step of gradient descent, as c -> 0."""
    case = regression.example(*size, seed=seed)
    A = torch.zeros(1, size[0], dtype=F64)
    for steps in (1, 2, 3):
        A = autograd_step(case, A)
        exact = torch.cat([(case.phi @ A.T - case.Y)[:, 0], case.asked @ A.T])
        errors = [off(readings.descent(case, steps, c=c, C=31.9), exact) for c in (1e-4, 1e-5)]
        assert errors[0] <= 10 * 1e-4
        assert errors[1] <= 0.2 * errors[0]
    first = readings.descent(case, 1, c=1e-4, C=31.9)[:-1]
    assert float(first.square().mean()) < 0.7 * float(case.Y.square().mean())


def test_closeness_is_unlimited_over_the_reals():
    """Two heads in 120 decimal digits: the error goes on falling with c where float64 stopped at 1e-8."""
    x, r, n = (
        [Decimal(v) for v in ("0.7", "-1.3", "2.1")],
        [Decimal(v) for v in ("0.4", "-0.9", "1.7")],
        3,
    )
    with localcontext() as context:
        context.prec = 120
        exact = sum(a * b * x[0] for a, b in zip(r, x, strict=True)) / n
        for digits in (4, 10, 20, 30):
            c, C = Decimal(10) ** -digits, Decimal(3 * digits)
            scores = [c * b * x[0] / n for b in x]
            sums = [sum(s.exp() for s in scores) + C.exp(), n + C.exp()]
            made = (
                sum(a * s.exp() for a, s in zip(r, scores, strict=True)) / sums[0]
                - sum(r) / sums[1]
            )
            assert abs(made * C.exp() / c - exact) < 10 * c


@seeds
@pytest.mark.parametrize("size", SIZES)
def test_reading_out_with_indicators_keeps_the_labels(size, seed):
    """Codes bring A x to the last token, and indicators let it alone through: nothing else changes."""
    case, n = regression.example(*size, seed=seed), size[1]
    r = regression.start(case)
    r[2 * n] = float(case.descent(5) @ case.asked)
    made = readings.read_out(case, r)
    assert torch.equal(made[1 : 2 * n : 2], case.Y[:, 0])
    assert float(made[-1]) == float(r[2 * n])
    assert not made[0::2].any()
    # By codes alone the labels change: the gate does it.
    assert off(regression.printed_post(case, r)[1 : 2 * n : 2], case.Y[:, 0]) > 1e-2


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_relu_units_approximate_the_product_with_1_over_n(n):
    """On |u| <= 4: within h^2 / 16, so four times better with twice the units; 1024 give 2.4e-5 or better."""
    u = torch.linspace(-4, 4, 4001, dtype=F64)
    v, reach = torch.full_like(u, 1 / n), 5.0
    for units in (64, 256, 1024):
        error = off(readings.product_network(u, v, units, reach), u * v)
        assert 0 < error <= (4 * reach / units) ** 2 / 16 + 1e-13
    assert error < 2.4e-5


# -- Lemma A.3 and Theorem 3.2 --------------------------------------------------------------------


@pytest.mark.parametrize("q", [1, 3, 5])
@pytest.mark.parametrize("n", [6, 41, 141])
def test_stored_codes_copy_exactly(n, q):
    """Tokens that hold p_t .. p_{t-q} and q indicators: bit-exact copies, exact zeros before the start."""
    x = torch.randn(n, 3, generator=torch.Generator().manual_seed(n + q), dtype=F64)
    for codes in (binary_codes(n + q), sequences.random_codes(n + q, 64, seed=q)):
        made = readings.copies(x, q, codes)
        for i in range(1, q + 1):
            assert torch.equal(made[i:, i - 1], x[: n - i])
            assert not made[:i, i - 1].any()


@seeds
@pytest.mark.parametrize("case", [(3, 3, 30, (6,)), (2, 2, 20, (5, 4)), (4, 3, 40, (12, 8))])
def test_the_neighbour_layer_brings_the_label(case, seed):
    """Within L + 2 layers of at most q heads, as counted; as in Theorem 3.1 the last asks the neighbour."""
    its = SeriesCase(*case, seed=seed)
    program = its.compiled()
    assert program.entry.n_layers == len(its.layers) + 2
    assert max(count.heads for count in program.entry.counts()) <= its.q
    f, y, asked = its.pairs()
    made = program.run(its.x, None, steps=30).prediction[0]
    assert off(made, descend(f, y, its.lr(), 30) @ asked) <= 1e-10


@pytest.mark.parametrize("n_steps", [12, 30, 60])
@pytest.mark.parametrize("frequencies", [(1.2, 1.9), (0.9, 1.5, 2.2)])
def test_one_more_token_asks_for_the_future(n_steps, frequencies):
    """The previous q tokens, x_t as the label: the window of x_{N+1} is the one of an empty token N + 1."""
    case, q = sequences.waves(n_steps, frequencies), 2
    x = torch.cat([case.x, torch.zeros_like(case.x[:1])])
    windows = readings.copies(x, q, binary_codes(len(x) + q)).flatten(1)
    A = torch.linalg.lstsq(windows[q:-1], case.x[q:]).solution
    assert off(windows[-1] @ A, case.follows) < 1e-11


@pytest.mark.parametrize("n_steps", [12, 30, 60])
def test_a_series_that_began_at_rest_has_no_bias(n_steps):
    """x_t = 0 for t < 0 as a fact about the series: the sum over t = 1 .. N then has no wrong term."""
    case = sequences.waves(n_steps, at_rest=True)
    # It is a series of order 2 from its first entry on.
    twice = 2 * torch.cos(torch.tensor([1.2, 1.9], dtype=F64))
    assert off(case.x[1], twice * case.x[0]) < 1e-14
    assert off(case.x[2:], twice * case.x[1:-1] - case.x[:-2]) < 1e-13
    assert off(sequences.predictions(case)["from_start"], case.follows) < 1e-11


def series_of_modules(seed, count, steps=40):
    """|x_40| of series from Section 5.1 with torch.nn.Linear layers as they come, A ~ N(0, I)."""
    torch.manual_seed(seed)
    sizes = ((60, 20), (20, 20), (20, 20))
    phi = nn.Sequential(*[m for size in sizes for m in (nn.Linear(*size), nn.LeakyReLU(0.1))])
    with torch.no_grad():
        A, x = torch.randn(count, 20, 20), [torch.randn(count, 20) for _ in range(3)]
        while len(x) < steps:
            x.append(
                torch.einsum("bij,bj->bi", A, phi(torch.cat(x[-3:], 1))) + torch.randn(count, 20)
            )
    return x[-1].norm(dim=1)


@seeds
def test_default_layers_keep_the_series_small(seed):
    """|x_40| is hardly more than the noise of one step, sqrt(20) = 4.5, where He-scaled layers reach 1e11."""
    sizes = series_of_modules(seed, 256)
    assert 4.0 < float(sizes.median()) < 6.5
    assert float(sizes.max()) < 15
    made = sequences.noisy_series(20, 3, 40, (20, 20, 20), seed, scale=None, layers="default")
    assert float(made.x.norm(dim=1).max()) < 15
    icgd.compile(made.problem, icgd.GD(1e-3)).run(made.x, None, steps=1)
    wild = sequences.noisy_series(20, 3, 40, (20, 20, 20), seed, scale=None)
    assert float(wild.x[-1].norm()) > 1e9


# -- Theorem 3.3 ----------------------------------------------------------------------------------


@seeds
@pytest.mark.parametrize("phase", [0, 2, 5])
@pytest.mark.parametrize("slope", [0.01, 0.1, 0.5])
def test_reversible_means_inverting_the_targets(seed, phase, slope):
    """s^l = W s^{l-1} after one ReLU layer that undoes the activation; TF_post applies it again."""
    case = sequences.network_chains(5, 6, 20, seed, slope)
    layout = readings.rows_of(s=5, z=5)
    undo = MlpBuilder(layout, F64).write("z", [("s", 1.0)], below=1 / slope).layer()
    tokens = layout.pack({"s": case.chains[:, phase + 1]}, batch=(20,))
    targets = undo.dense(tokens, unwatched)[:, layout.slice("z")]
    W = torch.linalg.lstsq(case.chains[:, phase], targets).solution.T
    assert off(W, case.weights[phase]) < 1e-8
    assert off(leaky(W @ case.test[phase], slope), case.test[phase + 1]) < 1e-8


@seeds
@pytest.mark.parametrize("phase", [0, 1, 3, 5])
def test_the_first_layers_are_the_representation(seed, phase):
    """Phi of the regression for s^{l+1}: the network up to layer l, applied to x."""
    case = sequences.network_chains(5, 6, 20, seed)
    found = sequences.next_states(case, phase)
    assert off(found["first_layers"], case.test[phase + 1]) < 1e-11


# -- Lemma A.4 and Theorem 4.1 --------------------------------------------------------------------


@seeds
@pytest.mark.parametrize("size", [(2, 6), (5, 20), (8, 12)])
def test_a_row_of_examples_starts_newton(size, seed):
    """x on examples only, in the row where M x will be: TF_pre is linear there, and holds alpha S x after."""
    case = newton.gaussian(*size, seed)
    alpha = 1 / case.size**2
    exact = alpha * case.X @ (case.X.T @ case.X)
    made = readings.newton_columns(case, alpha, 0, c=1e-6, C=31.9)
    assert float((made[:-1] - exact).norm()) <= 1e-4 * float(exact.norm())
    assert not made[-1].any()


@seeds
@pytest.mark.parametrize("size", [(2, 6), (5, 20), (8, 12)])
def test_newton_in_rows_of_its_own(size, seed):
    """2 M - M S M by a ReLU layer from M x and c M S M x; x_test asks with 0 and receives exactly 0."""
    case = newton.gaussian(*size, seed)
    alpha = 1 / case.size**2
    for steps in (1, 6, 20):
        exact = case.X @ newton_matrix(case.X, alpha, steps)
        made = readings.newton_columns(case, alpha, steps, c=1e-6, C=31.9)
        assert float((made[:-1] - exact).norm()) <= 1e-4 * float(exact.norm())
        assert not made[-1].any()
    # M_k X^T y is the least-squares solution by then, if the data are well-conditioned.
    if size == (5, 20):
        assert off(case.y @ made[:-1], least_squares(case.X, case.y)) <= 1e-3


# -- Lemma A.5 ------------------------------------------------------------------------------------


@seeds
@pytest.mark.parametrize("k", [0, 5])
def test_head_one_on_the_row_of_head_two(seed, k):
    """Keys, values and sink as in head 2: the printed layer is a step of descent on every prefix."""
    case = decoder.gaussian(5, 20, seed)
    w, after = (prefix_gd(case.X, case.y, case.lr, steps) for steps in (k, k + 1))
    errors = []
    for c, C in ((1e-3, 14.0), (1e-4, 20.0)):
        g, made = readings.decoder_step(case, w, c=c, C=C, units=4096, mended=True)
        assert off(g[0::2], decoder.exact_sums(case, w)) <= 100 * c
        errors.append(off(made[0::2], after))
    assert errors[1] < 0.3 * errors[0] < 1e-3
    # As printed x_i counts itself.
    _, wrong = readings.decoder_step(case, w, c=1e-4, C=20.0, units=4096, mended=False)
    assert off(wrong[0::2], after) > 1.0


@seeds
@pytest.mark.parametrize("mended", [False, True])
def test_stars_are_multiplied_by_zero(seed, mended):
    """What sinks leave at x_1 and y tokens is huge; the displayed row 1/(i-1) is 0 there, and nothing moves."""
    case = decoder.gaussian(5, 20, seed)
    w = prefix_gd(case.X, case.y, case.lr, 5)
    g, made = readings.decoder_step(case, w, c=1e-4, C=20.0, units=4096, mended=mended)
    assert float(g[1::2].abs().max()) > 1e11
    assert float(g[0].abs().max()) > 1e11 or mended
    assert not made[1::2].any()
    assert torch.equal(made[0], w[0])


# -- rows need the readings they name -------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "checker"),
    [
        ("descent", algo_regression.lemma_a2),
        ("copies", algo_sequences.lemma_a3),
        ("newton_columns", algo_newton.lemma_a4),
        ("newton_columns", algo_newton.theorem_41),
    ],
)
def test_a_row_whose_reading_fails_does_not_pass(name, checker, monkeypatch):
    right = getattr(readings, name)
    monkeypatch.setattr(readings, name, lambda *a, **k: 1.01 * right(*a, **k))
    assert not checker().passed


def test_the_decoders_row_needs_its_reading(monkeypatch):
    right = readings.decoder_step

    def wrong(*a, **k):
        g, w = right(*a, **k)
        return g, w + 1e-3

    monkeypatch.setattr(readings, "decoder_step", wrong)
    assert not algo_decoder.lemma_a5().passed
