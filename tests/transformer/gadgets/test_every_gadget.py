"""The battery every gadget must pass: exact where it says exact, below its certificate elsewhere."""

from __future__ import annotations

import math

import pytest
import torch
from cases import dense_step, literal, relative_gap, structured_step
from hypothesis import example, given
from hypothesis import strategies as st

from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.transformer.blocks import make_block
from icgd.transformer.gadgets.fits.smooth_functions import SMOOTH_FUNCTIONS, SmoothFunction
from icgd.transformer.gadgets.gates.closed_unit import ClosedUnit, Rectifier, closed_slope
from icgd.transformer.gadgets.gates.gate import Gate, gate_strength
from icgd.transformer.gadgets.heads.spectral_head import FunctionHead, SpectralHead
from icgd.transformer.gadgets.heads.spectral_theory import make_geometry
from icgd.transformer.layout import Layout, Slot
from icgd.transformer.nn.chain.grid_attention import GridAttention, HeadBank, ValuePath
from icgd.transformer.nn.chain.layer import Layer
from icgd.transformer.nn.feedforward import FeedForward, Skip

F64, F32 = torch.float64, torch.float32
DTYPES = [F64, F32]
CAPACITY = {F64: 2.0**22, F32: 2.0**20}
RADIUS = {F64: 1024.0, F32: 128.0}

IN = Layout(
    [
        *[Slot(name, (4,)) for name in ("v", "w", "closed")],
        *[Slot(name, ()) for name in ("flag", "hidden", "linear")],
    ]
)
OUT = Layout([Slot("out", (4,)), Slot("gate", (4,))])


def literally(part, dtype, **slots):
    """The gadget as literal matrices on a token with these slots; what it writes."""
    ffn = FeedForward(IN, OUT, {"it": part}).dense()
    written = OUT.unpack(ffn(IN.pack(slots, dtype=dtype)))
    return written["gate"] if isinstance(part, ClosedUnit) else written["out"]


def floats(dtype, bound, **limits):
    """Floats of that precision of every size, subnormal and huge ones among them."""
    width = 64 if dtype == F64 else 32
    return st.floats(-bound, bound, width=width, allow_nan=False, **limits)


def bits(t):
    """For comparing to the last bit; -0.0 and 0.0 are the same number here."""
    return (t + 0.0).tolist()


# -- the gate -------------------------------------------------------------------------------------


def gate(dtype, source=None, off=("flag",)):
    return Gate((4,), source or {"v": 1.0}, "out", off, capacity=CAPACITY[dtype], dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_an_open_gate_passes_every_bit(dtype, data):
    values = data.draw(st.lists(floats(dtype, CAPACITY[dtype]), min_size=4, max_size=4))
    v = torch.tensor(values, dtype=dtype)
    assert bits(literally(gate(dtype), dtype, v=v)) == bits(v)
    assert bits(literally(gate(dtype, off=("closed", "flag")), dtype, v=v)) == bits(v)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("off", [1.0, 2.0, 3.5])
@given(data=st.data())
def test_a_shut_gate_gives_exactly_zero(dtype, off, data):
    values = data.draw(st.lists(floats(dtype, CAPACITY[dtype]), min_size=4, max_size=4))
    v = torch.tensor(values, dtype=dtype)
    assert bits(literally(gate(dtype), dtype, v=v, flag=off)) == [0.0] * 4


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_smallest_positive_closed_shuts_the_gate_on_the_largest_value(dtype):
    """1 - k z for k z one step below 1 is one unit round-off: no float lies between open and shut."""
    smallest = 1.0 - float(torch.nextafter(torch.tensor(1.0, dtype=dtype), torch.tensor(0.0)))
    assert smallest == torch.finfo(dtype).eps / 2
    c = CAPACITY[dtype]
    v = torch.tensor([c, -c, 1.0, -1e-30], dtype=dtype)
    closed = torch.full((4,), smallest, dtype=dtype)
    shut = literally(gate(dtype, off=("closed",)), dtype, v=v, closed=closed)
    assert bits(shut) == [0.0] * 4


def test_a_gate_is_shut_entry_by_entry():
    v = torch.tensor([1.0, -2.0, 3.0, -4.0], dtype=F64)
    closed = torch.tensor([0.0, 1.0, 0.25, 0.0], dtype=F64)
    both = gate(F64, off=("closed", "flag"))
    assert bits(literally(both, F64, v=v, closed=closed)) == [1.0, 0.0, 0.0, -4.0]
    assert bits(literally(both, F64, v=v, closed=closed, flag=1.0)) == [0.0] * 4


@given(st.lists(floats(F64, 1e6), min_size=8, max_size=8))
def test_a_gate_on_a_difference_is_the_rounded_difference(values):
    v, w = torch.tensor(values, dtype=F64).reshape(2, 4)
    difference = gate(F64, {"v": 1.0, "w": -1.0})
    assert bits(literally(difference, F64, v=v, w=w)) == bits(v - w)
    assert bits(literally(difference, F64, v=v, w=w, flag=1.0)) == [0.0] * 4


@pytest.mark.parametrize("dtype", DTYPES)
@given(capacity=st.floats(1e-3, 1e7))
def test_the_strength_is_the_least_power_of_two_that_does(dtype, capacity):
    strength = gate_strength(capacity, dtype)
    u = torch.finfo(dtype).eps / 2
    assert math.frexp(strength)[0] == 0.5
    assert strength * u >= capacity > strength * u / 2


def test_a_gate_certifies_no_error_on_its_capacity():
    c = gate(F64).certificate()
    assert (c.sup_error, c.lipschitz, c.domain, c.rigorous) == (0.0, 1.0, CAPACITY[F64], True)
    assert c.weight_norm == gate_strength(CAPACITY[F64], F64)


# -- closed units and the rectifier ---------------------------------------------------------------


def closed_unit(dtype, linear="linear"):
    return ClosedUnit(
        4,
        z="v",
        hidden="hidden",
        linear=linear,
        target="gate",
        dtype=dtype,
        slope=closed_slope(RADIUS[dtype], dtype),
        capacity=CAPACITY[dtype],
    )


@pytest.mark.parametrize("linear", ["linear", None])
@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_closed_is_exactly_zero_or_one_outside_the_ramp(dtype, linear, data):
    ramp = 1 / closed_slope(RADIUS[dtype], dtype)
    top = RADIUS[dtype]
    outside = st.one_of(
        floats(dtype, top).filter(lambda z: z <= 0),
        st.floats(ramp, top, width=64 if dtype == F64 else 32),
    )
    z = torch.tensor(data.draw(st.lists(outside, min_size=4, max_size=4)), dtype=dtype)
    got = literally(closed_unit(dtype, linear), dtype, v=z, hidden=1.0)
    assert bits(got) == bits((z <= 0).to(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_ends_of_the_ramp(dtype):
    """z = 0 is closed, as in PyTorch; z = 1/k is open; between, closed lies between 0 and 1."""
    ramp = 1 / closed_slope(RADIUS[dtype], dtype)
    z = torch.tensor([0.0, ramp, ramp / 4, -ramp], dtype=dtype)
    got = literally(closed_unit(dtype), dtype, v=z, hidden=1.0)
    assert bits(got) == [1.0, 0.0, 0.75, 1.0]
    just_below = torch.nextafter(torch.tensor(ramp, dtype=dtype), torch.tensor(0.0, dtype=dtype))
    almost = literally(closed_unit(dtype), dtype, v=just_below.expand(4), hidden=1.0)
    assert bits(almost) == [torch.finfo(dtype).eps / 2] * 4


@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_a_linear_layer_has_no_closed_units(dtype, data):
    z = data.draw(st.lists(floats(dtype, RADIUS[dtype]), min_size=4, max_size=4))
    got = literally(closed_unit(dtype), dtype, v=torch.tensor(z, dtype=dtype), linear=1.0)
    assert bits(got) == [0.0] * 4


@pytest.mark.parametrize("dtype", DTYPES)
@given(radius=st.floats(1e-2, 2.0**18))
def test_the_slope_keeps_every_product_exact(dtype, radius):
    k = closed_slope(radius, dtype)
    assert math.frexp(k)[0] == 0.5
    assert k * radius <= 2 / torch.finfo(dtype).eps < 2 * 2 * k * radius


@pytest.mark.parametrize("hidden", [0.0, 1.0])
@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_the_rectifier_is_relu_on_hidden_layers_and_nothing_on_linear_ones(dtype, hidden, data):
    z = data.draw(st.lists(floats(dtype, CAPACITY[dtype]), min_size=4, max_size=4))
    z = torch.tensor(z, dtype=dtype)
    unit = Rectifier(4, z="v", hidden="hidden", target="out", capacity=CAPACITY[dtype], dtype=dtype)
    got = literally(unit, dtype, v=z, hidden=hidden)
    assert bits(got) == bits(z.relu() if hidden else z)


@pytest.mark.parametrize("dtype", DTYPES)
def test_exact_gadgets_certify_no_error(dtype):
    rectifier = Rectifier(4, z="v", hidden="hidden", target="out", capacity=8.0, dtype=dtype)
    for part in (rectifier, closed_unit(dtype)):
        assert part.certificate().sup_error == 0.0
        assert part.certificate().rigorous


# -- gadgets on both executors --------------------------------------------------------------------


def layer_with(make, target):
    """The gadget, reading the upper block, in front of a head that has nothing to do."""
    block = Layout([*IN, *OUT])
    work = Layout([*OUT, Slot("nothing", (4,)), Slot("sink", (4,))])
    g = make_geometry(32, 1.4, 8.25, 8.0, "spectral")
    idle = HeadBank("idle", 4, 4, ("nothing",), (ValuePath("out", "whole", "sink", "whole"),), F64)
    return block, Layer(
        FeedForward(Layout.stack(top=block, bottom=block), work, {"it": make("top/")}),
        GridAttention(work, ("out",), g.levels(), g.beta, [idle], F64),
        FeedForward(work, block, {}, [Skip(target, target, (4,), 1.0, F64)]),
        8.0,
    )


def a_gate(at):
    source, off = {f"{at}v": 1.0, f"{at}w": -2.0}, (f"{at}closed", f"{at}flag")
    return Gate((4,), source, "out", off, capacity=CAPACITY[F64], dtype=F64)


def a_closed_unit(at):
    return ClosedUnit(
        4,
        z=f"{at}v",
        hidden=f"{at}hidden",
        linear=f"{at}linear",
        target="gate",
        slope=2.0**30,
        capacity=CAPACITY[F64],
        dtype=F64,
    )


def a_rectifier(at):
    names = {"z": f"{at}v", "hidden": f"{at}hidden", "target": "out"}
    return Rectifier(4, **names, capacity=CAPACITY[F64], dtype=F64)


GADGETS = {
    "gate": (a_gate, "out"),
    "closed_unit": (a_closed_unit, "gate"),
    "rectifier": (a_rectifier, "out"),
}


@pytest.mark.parametrize("name", GADGETS)
@pytest.mark.parametrize("as_tensors", [False, True], ids=["known flags", "flags as data"])
@pytest.mark.parametrize("empty", [(), ("v",), ("closed",), ("v", "w", "closed")], ids=str)
@pytest.mark.parametrize("flags", [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (2, 0, 1)], ids=str)
def test_both_executors_agree_on_every_flag(name, flags, empty, as_tensors):
    """Known flags let a plan leave gadgets out; flags that are data must not be guessed."""
    make, target = GADGETS[name]
    block, layer = layer_with(make, target)
    generator = torch.Generator().manual_seed(0)
    values = {
        "v": torch.randn(4, generator=generator, dtype=F64),
        "w": torch.randn(4, generator=generator, dtype=F64),
        "closed": torch.tensor([0.0, 1.0, 0.0, 2.0**-53], dtype=F64),
    }
    values = {slot: x for slot, x in values.items() if slot not in empty}
    for slot, flag in zip(("flag", "hidden", "linear"), flags, strict=True):
        values[slot] = torch.tensor(float(flag), dtype=F64) if as_tensors else float(flag)
    blocks = [make_block(values), make_block({})]
    ours = literal(structured_step(layer, blocks), block)
    assert torch.equal(ours + 0.0, dense_step(layer, block, blocks) + 0.0)


@pytest.mark.parametrize("name", GADGETS)
def test_both_executors_agree_when_any_weight_of_the_gadget_is_altered(name):
    make, target = GADGETS[name]
    generator = torch.Generator().manual_seed(1)
    values = {slot: torch.randn(4, generator=generator, dtype=F64) for slot in ("v", "w")}
    values["closed"] = torch.tensor([0.0, 1.0, 0.0, 2.0**-53], dtype=F64)
    count = len(list(make("top/").parameters()))
    for which in range(count):
        for factor in (0.5, 1.25, -0.5):
            for hidden in (0.0, 1.0):
                block, layer = layer_with(make, target)
                parameter = list(layer.pre.parameters())[which]
                parameter.data[2] *= factor
                blocks = [
                    make_block({**values, "hidden": hidden, "linear": 1.0 - hidden}),
                    make_block({}),
                ]
                ours = literal(structured_step(layer, blocks), block)
                assert relative_gap(dense_step(layer, block, blocks), ours) <= 1e-14


# -- the spectral head ----------------------------------------------------------------------------

OPTIONS = {
    "default": {},
    "odd": {"n_grid": 33},
    "hard": {"temperature": "hard", "n_grid": 16},
    "blurred": {"rho": 0.8},
    "float32": {"dtype": F32, "rho": 1.05, "margin": 5.5},
}
fractions = st.floats(-1, 1)


def in_range(head, fraction):
    s = torch.tensor(fraction * head.geometry.radius, dtype=F64).to(head.levels.dtype)
    if abs(float(s)) > head.geometry.radius:
        s = torch.nextafter(s, torch.zeros_like(s))
    return s


@pytest.mark.parametrize("name", OPTIONS)
@given(st.lists(fractions, min_size=1, max_size=20), st.floats(-3, 5).map(lambda e: 10.0**e))
@example([1.0, -1.0, 0.0], 1.0)
def test_the_identity_head_keeps_its_certificate(name, asked, radius):
    head = SpectralHead(radius, **OPTIONS[name])
    s = torch.stack([in_range(head, f) for f in asked])
    assert float((head(s).double() - s.double()).abs().max()) <= head.certificate().sup_error


@pytest.mark.parametrize("name", OPTIONS)
@given(st.integers(0, 2**32), fractions, st.floats(1e-3, 1e3))
def test_the_product_head_keeps_its_certificate(name, seed, fraction, bound):
    head = SpectralHead(8.0, **OPTIONS[name])
    generator = torch.Generator().manual_seed(seed)
    v = (bound * (2 * torch.rand(5, generator=generator, dtype=F64) - 1)).to(head.levels.dtype)
    s = in_range(head, fraction)
    certified = head.certificate(value_bound=float(v.abs().max())).sup_error
    error = (head.product(s, v).double() - s.double() * v.double()).abs()
    assert float(error.max()) <= certified


@pytest.mark.parametrize("name", OPTIONS)
@given(fractions, st.integers(0, 2**32), st.integers(-40, 40))
def test_the_product_head_is_linear_in_its_vector(name, fraction, seed, exponent):
    """v = 0 gives exactly 0, signs and powers of two pass through to the bit, sums up to rounding."""
    head = SpectralHead(8.0, **OPTIONS[name])
    generator = torch.Generator().manual_seed(seed)
    v, w = torch.randn(2, 6, generator=generator, dtype=F64).to(head.levels.dtype)
    s = in_range(head, fraction)
    assert bits(head.product(s, torch.zeros_like(v))) == [0.0] * 6
    got = head.product(s, v)
    assert torch.equal(head.product(s, -v), -got)
    scale = 2.0 ** (exponent if head.levels.dtype == F64 else exponent // 4)
    assert torch.equal(head.product(s, scale * v), scale * got)
    sums = head.product(s, v + w).double() - (got + head.product(s, w)).double()
    u = torch.finfo(head.levels.dtype).eps / 2
    level = float(head.levels.abs().max())
    size = (v.abs() + w.abs()).double() * level
    assert bool((sums.abs() <= 2 * (head.geometry.n_grid + 4) * u * size).all())


def test_heads_take_batches():
    head = SpectralHead(4.0)
    generator = torch.Generator().manual_seed(0)
    s = 8 * torch.rand(3, 2, generator=generator, dtype=F64) - 4
    v = torch.randn(3, 2, 5, generator=generator, dtype=F64)
    certified = head.certificate(value_bound=float(v.abs().max())).sup_error
    assert head(s).shape == (3, 2)
    assert float((head(s) - s).abs().max()) <= certified
    assert float((head.product(s, v) - s.unsqueeze(-1) * v).abs().max()) <= certified


@pytest.mark.parametrize("value", [4.001, -5.0, math.nan, math.inf])
def test_a_head_asked_out_of_range_says_so(value):
    head = SpectralHead(4.0)
    s = torch.tensor([0.0, value], dtype=F64)
    for ask in (
        lambda: head(s),
        lambda: head.product(s, torch.ones(2, 3, dtype=F64)),
    ):
        with pytest.raises(AssumptionViolated, match=r"certified on \|s\| <= 4. Got"):
            ask()


def test_a_heads_certificate_tells_its_cost():
    head = SpectralHead(4.0, n_grid=40)
    c = head.certificate()
    assert (c.domain, c.n_tokens, c.lipschitz, c.rigorous) == (4.0, 40, 1.0, True)
    largest = max(float(head.table.abs().max()), float(head.levels.abs().max()))
    assert math.isclose(c.weight_norm, largest, rel_tol=1e-12)
    assert head.certificate(value_bound=3.0).sup_error == 3.0 * c.sup_error


# -- function heads -------------------------------------------------------------------------------

SMOOTH = ["sigmoid", "tanh", "gelu", "softplus", "exp"]


@pytest.mark.parametrize("name", SMOOTH)
def test_a_function_head_keeps_a_certificate_of_machine_precision(name):
    """Function and function-product form of one head; fitting it is what takes the time."""
    head, function = FunctionHead(name, 4.0, n_grid=128, max_error=1e-11), SMOOTH_FUNCTIONS[name]
    certificate = head.certificate()
    s = torch.cat([torch.linspace(-4, 4, 20_011, dtype=F64), torch.zeros(1, dtype=F64)])
    assert float((head(s) - function.apply(s)).abs().max()) <= certificate.sup_error <= 1e-11
    assert certificate.rigorous
    assert (certificate.domain, certificate.n_tokens) == (4.0, 128)
    generator = torch.Generator().manual_seed(0)
    some = s[torch.randint(len(s), (400,), generator=generator)]
    v = 10 * torch.randn(400, 3, generator=generator, dtype=F64)
    error = (head.product(some, v) - function.apply(some).unsqueeze(-1) * v).abs()
    assert float(error.max()) <= head.certificate(value_bound=float(v.abs().max())).sup_error
    assert not head.product(some, torch.zeros_like(v)).any()
    assert torch.equal(head.product(some, -4 * v), -4 * head.product(some, v))


@pytest.mark.parametrize("name", ["sigmoid", "exp"])
def test_a_function_head_in_float32_keeps_its_certificate(name):
    head = FunctionHead(name, 4.0, n_grid=40, rho=1.05, margin=5.5, dtype=F32)
    s = torch.linspace(-4, 4, 4001, dtype=F32)
    exact = SMOOTH_FUNCTIONS[name].apply(s.double())
    certified = head.certificate().sup_error
    assert float((head(s).double() - exact).abs().max()) <= certified <= 1e-4 * float(exact.max())


@pytest.mark.parametrize("name", ["tanh", "gelu", "exp"])
def test_a_coarser_fit_has_a_larger_certificate_that_still_holds(name):
    head = FunctionHead(name, 4.0, n_grid=40)
    s = torch.linspace(-4, 4, 10_007, dtype=F64)
    measured = float((head(s) - SMOOTH_FUNCTIONS[name].apply(s)).abs().max())
    assert measured <= head.certificate().sup_error


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "gelu"])
def test_a_hard_function_head_reads_the_nearest_value(name):
    head = FunctionHead(name, 4.0, n_grid=64, temperature="hard")
    s = torch.linspace(-4, 4, 10_007, dtype=F64)
    function = SMOOTH_FUNCTIONS[name]
    measured = float((head(s) - function.apply(s)).abs().max())
    certificate = head.certificate()
    assert 1e-3 < measured <= certificate.sup_error
    assert certificate.sup_error <= 1.0001 * function.slope_bound(4.0) * head.geometry.spacing / 2
    assert torch.equal(head.values.data, function.apply(head.levels.data))


@pytest.mark.parametrize("name", list(SMOOTH_FUNCTIONS))
@pytest.mark.parametrize("radius", [0.5, 4.0, 12.0])
def test_the_tabled_derivative_bounds_hold(name, radius):
    function = SMOOTH_FUNCTIONS[name]
    s = torch.linspace(-radius, radius, 40_001, dtype=F64, requires_grad=True)
    value, largest = function.apply(s), []
    for _ in range(4):
        if not value.requires_grad:
            largest.append(0.0)
            continue
        (value,) = torch.autograd.grad(value.sum(), s, create_graph=True)
        largest.append(float(value.detach().abs().max()))
    assert largest[0] <= function.slope_bound(radius) * (1 + 1e-12)
    assert largest[3] <= function.fourth_bound(radius) * (1 + 1e-9)
    assert torch.equal(function.derivative(s), torch.autograd.grad(function.apply(s).sum(), s)[0])


def test_a_users_function_without_a_bound_is_flagged():
    wave = SmoothFunction("wave", lambda s: torch.sin(2 * s), lambda radius: 2.0)
    told = SmoothFunction("wave", wave.apply, wave.slope_bound, lambda radius: 16.0)
    estimated, proven = (FunctionHead(f, 2.0, n_grid=64) for f in (wave, told))
    s = torch.linspace(-2, 2, 10_007, dtype=F64)
    assert not estimated.certificate().rigorous
    assert proven.certificate().rigorous
    for head in (estimated, proven):
        measured = float((head(s) - torch.sin(2 * s)).abs().max())
        assert measured <= head.certificate().sup_error <= 1e-10


@pytest.mark.parametrize(
    "function",
    [
        SmoothFunction("cube", lambda s: s**3, lambda r: 3 * r * r),
        SmoothFunction("line", lambda s: 2 * s + 1, lambda r: 2.0),
        SmoothFunction("one", torch.ones_like, lambda r: 0.0),
    ],
    ids=lambda f: f.name,
)
def test_polynomials_without_bounds_are_fitted_too(function):
    head = FunctionHead(function, 2.0, n_grid=48)
    s = torch.linspace(-2, 2, 1001, dtype=F64)
    measured = float((head(s) - function.apply(s)).abs().max())
    assert measured <= head.certificate().sup_error <= 1e-11


def test_a_fit_that_is_not_good_enough_is_refused_with_numbers():
    with pytest.raises(AssumptionViolated, match=r"function_head\(tanh\) with n_grid=40") as caught:
        FunctionHead("tanh", 4.0, n_grid=40, max_error=1e-12)
    for part in ("the wanted error is 1e-12", "largest value", "Raise n_grid"):
        assert part in str(caught.value)


def test_estimating_a_bound_gives_the_user_no_warning():
    """PyTorch warns once per process; `set_warn_always` makes every time the first."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        FunctionHead(SmoothFunction("sine", torch.sin, lambda radius: 1.0), 1.0, n_grid=32)
    finally:
        torch.set_warn_always(before)


def test_an_unknown_function_is_refused_with_the_known_ones():
    with pytest.raises(InvalidParameter, match="`function` must be one of") as caught:
        FunctionHead("relu", 4.0)
    assert all(name in str(caught.value) for name in SMOOTH)


def test_gadgets_are_frozen():
    for module in (
        SpectralHead(1.0),
        FunctionHead("tanh", 1.0, n_grid=32),
        gate(F64),
        closed_unit(F64),
    ):
        assert not any(p.requires_grad for p in module.parameters())
