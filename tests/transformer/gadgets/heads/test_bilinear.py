"""scale * sum_s v_s <q_i, k_s> in all modes: below the certificate, and 0 where nothing is due."""

from __future__ import annotations

import math

import pytest
import torch

from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.transformer.gadgets.heads.bilinear import (
    Bilinear,
    BilinearOptions,
    bilinear_certificate,
    bilinear_layer,
)
from icgd.transformer.layout import Layout, Slot
from icgd.transformer.nn.stack.softmax_sublayer import SoftmaxSublayer
from icgd.transformer.nn.stack.spectral_sublayer import SpectralSublayer
from icgd.transformer.nn.stack.stack import unwatched

F64, F32 = torch.float64, torch.float32
MODES = ["spectral", "sym", "four", "printed"]
HEADS = {"sym": 2, "four": 4, "printed": 2}
EVALUATIONS = ["collapsed", "sparse", "dense"]
SCALE = -0.7


def layout(d, m):
    names = [("q", (d,)), ("k", (d,)), ("v", (m,)), ("out", (m,)), ("one", ()), ("sink", ())]
    return Layout([Slot(name, shape, each=True) for name, shape in names])


def tokens(made, n, seed, bound, dtype, batch=()):
    """Random tokens whose products reach the bound; the last one is the sink."""
    g = torch.Generator().manual_seed(seed)
    d, m = made["q"].size, made["v"].size
    q, k = (torch.randn(*batch, n, d, generator=g, dtype=F64) for _ in range(2))
    v = torch.randn(*batch, n, m, generator=g, dtype=F64)
    for part in (q, k, v):
        part[..., -1, :] = 0.0
    q = 0.999 * q * bound / float((q @ k.mT).abs().max())
    sink = torch.zeros(n)
    sink[-1] = 1.0
    return made.pack(
        {"q": q, "k": k, "v": v, "one": 1.0, "sink": sink}, batch=(*batch, n), dtype=dtype
    )


def product(bound=3.0, **more):
    return Bilinear([[("q", 1.0)]], [[("k", 1.0)]], [("v", 1.0)], "out", SCALE, bound, **more)


def wanted(made, given):
    """Plain arithmetic in float64 on the numbers the layer gets."""
    u = made.unpack(given.double())
    return SCALE * (u["q"] @ u["k"].mT) @ u["v"]


def error(made, layer, given, evaluation):
    """Per unit of scale * sum |v_s|, what the certificate speaks of."""
    out = made.unpack(getattr(layer, evaluation)(given, unwatched).double())["out"]
    unit = abs(SCALE) * float(made.unpack(given.double())["v"].abs().sum(dim=-2).max())
    return float((out - wanted(made, given)).abs().max()) / unit


@pytest.mark.parametrize("dtype", [F64, F32], ids=["float64", "float32"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("bound", [0.01, 3.0, 200.0])
@pytest.mark.parametrize("n", [2, 12, 80])
def test_the_error_stays_below_the_certificate(mode, dtype, bound, n):
    made, options = layout(4, 2), BilinearOptions(mode, dtype=dtype)
    layer = bilinear_layer(made, product(bound), options)
    promised = bilinear_certificate(options, bound, n).sup_error
    worst = 0.0
    for seed in range(4):
        given = tokens(made, n, seed, bound, dtype)
        for evaluation in EVALUATIONS:
            worst = max(worst, error(made, layer, given, evaluation))
    assert worst <= promised
    # A promise of anything would be kept as well.
    assert promised <= 1e-2 * bound
    if dtype == F64:
        assert (
            promised
            <= {"spectral": 1e-13, "sym": 1e-9, "four": 1e-11, "printed": 5e-7}[mode] * bound
        )


@pytest.mark.parametrize("mode", ["sym", "four", "printed"])
@pytest.mark.parametrize("C", [10.0, 15.9, 25.0, 31.9, 63.0])
def test_the_certificate_follows_the_sink(mode, C):
    """Few nats leave the sink's share, many coarsen the scores; both are promised."""
    made, options = layout(3, 1), BilinearOptions(mode, C=C)
    given = tokens(made, 20, 0, 1.0, F64)
    layer = bilinear_layer(made, product(1.0), options)
    measured, promised = (
        error(made, layer, given, "collapsed"),
        bilinear_certificate(options, 1.0, 20).sup_error,
    )
    assert measured <= promised
    if C == 10.0:
        assert measured > 1e-5


@pytest.mark.parametrize(
    ("mode", "order", "scales", "room"),
    [
        ("printed", 1, (1e-2, 1e-3, 1e-4), 0.1),
        ("sym", 2, (1e-1, 1e-2, 1e-3), 0.1),
        ("four", 4, (3e-1, 1e-1, 3e-2), 0.3),
    ],
)
def test_the_error_falls_with_the_order_of_the_mode(mode, order, scales, room):
    made, errors = layout(3, 1), []
    given = tokens(made, 10, 1, 1.0, F64)
    for c in scales:
        options = BilinearOptions(mode, c=c)
        errors.append(error(made, bilinear_layer(made, product(1.0), options), given, "dense"))
        assert errors[-1] <= bilinear_certificate(options, 1.0, 10).sup_error
    slope = math.log(errors[0] / errors[-1]) / math.log(scales[0] / scales[-1])
    assert abs(slope - order) <= room


@pytest.mark.parametrize("evaluation", EVALUATIONS)
@pytest.mark.parametrize("mode", MODES)
def test_tokens_without_a_query_receive_exactly_nothing(mode, evaluation):
    made = layout(4, 2)
    given = tokens(made, 9, 0, 3.0, F64)
    given[3, made.index("q")] = 0.0
    layer = bilinear_layer(made, product(), BilinearOptions(mode))
    out = made.unpack(getattr(layer, evaluation)(given, unwatched))["out"]
    assert not out[3].any()
    assert not out[-1].any()
    assert out[0].any()


@pytest.mark.parametrize("evaluation", EVALUATIONS)
@pytest.mark.parametrize("mode", MODES)
def test_tokens_without_a_key_contribute_nothing(mode, evaluation):
    """Whatever their value: exactly so in spectral heads, to rounding where two large sums cancel."""
    made, options = layout(4, 2), BilinearOptions(mode)
    given = tokens(made, 9, 0, 3.0, F64)
    given[5, made.index("k")] = 0.0
    other = given.clone()
    other[5, made.index("v")] = 0.0
    layer = bilinear_layer(made, product(), options)
    out, same = (
        made.unpack(getattr(layer, evaluation)(t, unwatched))["out"] for t in (given, other)
    )
    if mode == "spectral":
        assert torch.equal(out, same)
    else:
        unit = abs(SCALE) * float(made.unpack(given)["v"].abs().sum(dim=-2).max())
        assert (
            float((out - same).abs().max())
            <= bilinear_certificate(options, 3.0, 9).sup_error * unit
        )


@pytest.mark.parametrize("mode", MODES)
def test_other_coordinates_are_left_alone(mode):
    made = layout(4, 2)
    given = tokens(made, 9, 0, 3.0, F64)
    for evaluation in EVALUATIONS:
        out = getattr(bilinear_layer(made, product(), BilinearOptions(mode)), evaluation)(
            given, unwatched
        )
        for name in ("q", "k", "v", "one", "sink"):
            where = made.slice(name)
            assert torch.equal(out[..., where], given[..., where])


@pytest.mark.parametrize("mode", MODES)
def test_evaluations_agree(mode):
    """To rounding of the scores, which the linearised heads magnify by 1/c."""
    made, options = layout(4, 2), BilinearOptions(mode)
    given = tokens(made, 30, 2, 3.0, F64)
    layer = bilinear_layer(made, product(), options)
    outs = [made.unpack(getattr(layer, e)(given, unwatched))["out"] for e in EVALUATIONS]
    unit = abs(SCALE) * float(made.unpack(given)["v"].abs().sum(dim=-2).max())
    room = 1e-14 if mode == "spectral" else bilinear_certificate(options, 3.0, 30).sup_error
    for out in outs[1:]:
        assert float((out - outs[0]).abs().max()) <= room * unit


@pytest.mark.parametrize("mode", MODES)
def test_many_prompts_at_once(mode):
    made = layout(3, 2)
    given = tokens(made, 7, 0, 2.0, F64, batch=(2, 3))
    options = BilinearOptions(mode)
    layer = bilinear_layer(made, product(2.0), options)
    # Both are the same product, each to its certificate: a batch is summed in another order.
    unit = abs(SCALE) * float(made.unpack(given[1, 2])["v"].abs().sum(dim=-2).max())
    room = 2 * unit * bilinear_certificate(options, 2.0, 7).sup_error
    assert room <= 1e-5
    for evaluation in EVALUATIONS:
        together = getattr(layer, evaluation)(given, unwatched)
        alone = getattr(layer, evaluation)(given[1, 2], unwatched)
        assert float((together[1, 2] - alone).abs().max()) <= room
        assert error(made, layer, given, evaluation) <= 1e-6


@pytest.mark.parametrize("mode", MODES)
def test_causal_products_see_the_past_only(mode):
    made = layout(3, 1)
    given = tokens(made, 8, 0, 2.0, F64).flip(0)  # the sink must come first
    layer = bilinear_layer(made, product(2.0), BilinearOptions(mode), causal=True)
    u = made.unpack(given)
    exact = SCALE * (u["q"] @ u["k"].mT).tril() @ u["v"]
    for evaluation in EVALUATIONS:
        out = getattr(layer, evaluation)(given, unwatched)
        assert float((made.unpack(out)["out"] - exact).abs().max()) <= 1e-6
        changed = given.clone()
        changed[5:] = 0.3
        again = getattr(layer, evaluation)(changed, unwatched)
        assert torch.equal(again[:5], out[:5])


def test_sums_of_groups_are_multiplied_group_by_group():
    """<q, k> + <one, a k> as two groups of one score."""
    made = layout(2, 1)
    given = tokens(made, 6, 0, 1.0, F64)
    asks = [[("q", 1.0)], [("one", 1.0)]]
    keys = [[("k", 1.0)], [("k", torch.tensor([[0.5, -0.25]], dtype=F64))]]
    two = Bilinear(asks, keys, [("v", 1.0)], "out", SCALE, 8.0)
    u = made.unpack(given)
    score = u["q"] @ u["k"].mT + (u["k"] @ torch.tensor([0.5, -0.25], dtype=F64)).unsqueeze(0)
    for mode in MODES:
        layer = bilinear_layer(made, two, BilinearOptions(mode))
        out = made.unpack(layer.collapsed(given, unwatched))["out"]
        assert float((out - SCALE * score @ u["v"]).abs().max()) <= 1e-5


@pytest.mark.parametrize("mode", MODES)
def test_numbers_out_of_range_are_shown_to_the_watch(mode):
    made, seen = layout(3, 1), []
    given = tokens(made, 6, 0, 5.0, F64)
    layer = bilinear_layer(made, product(2.0), BilinearOptions(mode))

    def look(question, value, reach):
        seen.append((float(value.abs().max()), reach))
        if seen[-1][0] > reach:
            raise AssumptionViolated(question.label)

    for evaluation in EVALUATIONS:
        with pytest.raises(AssumptionViolated, match="product"):
            getattr(layer, evaluation)(given, look)
    assert seen[0] == pytest.approx((4.995, 2.0))


def test_heads_are_as_many_as_the_mode_says():
    made = layout(3, 1)
    for mode in MODES:
        layer = bilinear_layer(made, product(), BilinearOptions(mode))
        if mode == "spectral":
            assert isinstance(layer, SpectralSublayer)
        else:
            assert isinstance(layer, SoftmaxSublayer)
            assert layer.counts(made.width).heads == HEADS[mode]


def test_weights_hold_no_data():
    """The same layer for every prompt: compiled twice, equal bit by bit."""
    made = layout(3, 1)
    for mode in MODES:
        one, two = (bilinear_layer(made, product(), BilinearOptions(mode)) for _ in range(2))
        for (name, a), (_, b) in zip(one.named_parameters(), two.named_parameters(), strict=True):
            assert torch.equal(a, b), name


def test_wrong_modes_and_bounds():
    made = layout(3, 1)
    with pytest.raises(InvalidParameter, match="mode"):
        bilinear_layer(made, product(), BilinearOptions("exact"))
    for bound in (0.0, -1.0, math.inf):
        with pytest.raises(InvalidParameter, match="bound"):
            bilinear_layer(made, product(bound), BilinearOptions("sym"))
