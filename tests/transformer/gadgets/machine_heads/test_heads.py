"""Every head within its certificate over its whole range, in both precisions."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from exact_functions import exact, needs_wide, neighbours, sizes, wide

from icgd.errors import InvalidParameter
from icgd.transformer.gadgets.machine_heads.heads import FUNCTIONS, Heads, fitted_ratio
from icgd.transformer.gadgets.machine_heads.ranges import OutOfDomain
from icgd.transformer.gadgets.native.kernels import kernels_available

F64, F32 = torch.float64, torch.float32
DTYPES = pytest.mark.parametrize("dtype", [F64, F32], ids=["float64", "float32"])
KERNELS = pytest.mark.parametrize("kernels", ["cpp", "torch"])
READS = ["fixed", "float"]
ALL = [*FUNCTIONS, *READS]
TARGETS = {
    "float": 1.3e-15,
    "fixed": 1.3e-15,
    "sqrt": 4e-15,
    "rsqrt": 4e-15,
    "reciprocal": 4e-15,
    "exp": 4e-15,
    "erf": 2e-15,
    "sin": 4e-15,
    "cos": 4e-15,
    "sigmoid": 1e-15,
    "tanh": 1e-15,
}
"""Largest relative errors wanted in float64; the logarithm's is absolute, below."""


def heads_for(case, dtype, kernels="auto"):
    """Heads and the name of the head in question."""
    if kernels == "cpp" and not kernels_available():
        pytest.skip("no C++ compiler here")
    if case in READS:
        return Heads(case, dtype=dtype, kernels=kernels), "read"
    return Heads("float", dtype=dtype, kernels=kernels), case


def asked_numbers(heads, name, n, seed=0):
    """Random numbers over the whole domain, signs, boundaries with their neighbours, zeros, subnormals."""
    generator = torch.Generator().manual_seed(seed)
    domain, dtype, ranges = heads.domain(name), heads.dtype, heads.ranges
    low, high = ranges.exponents
    sign = torch.randint(0, 2, (n,), generator=generator).to(dtype) * 2 - 1
    q = sizes(n, low, high, generator, dtype) * sign
    if name == "exp":
        share = torch.rand(n, generator=generator, dtype=F64)
        q = (ranges.exp_edges[0] + share * (ranges.exp_edges[1] - ranges.exp_edges[0])).to(dtype)
    elif name in ("sin", "cos"):
        q = sizes(n, -40, math.log2(ranges.reach), generator, dtype) * sign
    elif name in ("erf", "sigmoid", "tanh"):
        q = sizes(n, -60, 7, generator, dtype) * sign
    elif name == "read" and heads.mode == "fixed":
        q = sizes(n, -60, math.log2(heads.radius), generator, dtype) * sign
    edges = [edge for b in heads.table(name).buckets for edge in (b.sign * b.low, b.sign * b.high)]
    edges = torch.tensor([e for e in edges if math.isfinite(e)], dtype=dtype)
    tiny = torch.finfo(dtype).smallest_normal
    plain = torch.tensor([0.0, -0.0, tiny, -tiny, tiny / 8, 1.0, 1.5, 2.0, 4.0], dtype=dtype)
    q = torch.cat([q, neighbours(edges), neighbours(plain), -plain])
    return q[domain.contains(q)]


def answered(heads, name, q):
    """Value and bound."""
    if name == "read":
        return heads.read(q), heads.read_error(q.abs())
    value = heads.function(name, q)
    return value, heads.function_error(name, q, value)


def check_bounds(case, dtype, kernels, n):
    heads, name = heads_for(case, dtype, kernels)
    q = asked_numbers(heads, name, n)
    value, bound = answered(heads, name, q)
    assert bool(value.isfinite().all())
    correct, doubt = exact(name, q)
    error = np.abs(wide(value) - correct)
    assert (error <= wide(bound) + doubt).all()
    return q, value, error, correct


@needs_wide
@KERNELS
@DTYPES
@pytest.mark.parametrize("case", ALL)
def test_every_head_keeps_its_certificate(case, dtype, kernels):
    check_bounds(case, dtype, kernels, 100_000)


@needs_wide
@pytest.mark.slow
@KERNELS
@DTYPES
@pytest.mark.parametrize("case", ALL)
def test_every_head_keeps_its_certificate_on_a_million_numbers(case, dtype, kernels):
    check_bounds(case, dtype, kernels, 1_000_000)


@needs_wide
@KERNELS
@pytest.mark.parametrize("case", TARGETS)
def test_heads_are_as_exact_as_wanted(case, kernels):
    q, value, error, correct = check_bounds(case, F64, kernels, 50_000)
    answers = ((value != 0) & (q.abs() > 2.0**-200)).numpy()
    assert (error[answers] / np.abs(correct[answers])).max() <= TARGETS[case]


@needs_wide
@KERNELS
def test_the_logarithm_is_exact_to_rounding_near_one(kernels):
    heads, _ = heads_for("log", F64, kernels)
    q = 1 + torch.linspace(-0.4, 0.9, 100_001, dtype=F64)
    error = np.abs(wide(heads.function("log", q)) - exact("log", q)[0])
    assert error.max() <= 4e-15
    assert error[np.abs(q.numpy() - 1) < 0.2].max() <= 3e-16


# -- promises in their form -----------------------------------------------------------------------


@DTYPES
@pytest.mark.parametrize("case", ALL)
def test_certificates_are_proven_and_no_looser_than_a_hundred_roundings(case, dtype):
    heads, name = heads_for(case, dtype)
    certificate, error = heads.certificate(name), heads.error(name)
    assert certificate.rigorous
    assert error.certificate is certificate
    assert error.relative <= 120 * torch.finfo(dtype).eps


@KERNELS
def test_zero_is_read_as_zero_and_small_numbers_below_every_bucket_too(kernels):
    for dtype in (F64, F32):
        heads, _ = heads_for("float", dtype, kernels)
        lowest = heads.ranges.lowest
        q = torch.tensor([0.0, -0.0, lowest, -lowest, lowest / 3], dtype=dtype)
        assert heads.read(q).tolist() == [0.0] * 5
        assert bool((heads.read_error(q.abs()) >= q.abs()).all())
        assert float(heads.read_error(q[:1])) == 0.0
        root = heads.function("sqrt", q.abs())
        assert root.tolist() == [0.0] * 5
        assert bool((heads.function_error("sqrt", q.abs(), root) >= q.abs().sqrt()).all())


@KERNELS
def test_an_odd_head_of_zero_is_zero(kernels):
    heads, _ = heads_for("fixed", F64, kernels)
    zero = torch.zeros(3, dtype=F64)
    assert heads.read(zero).tolist() == [0.0] * 3
    for name in ("sin", "erf", "tanh"):
        assert heads.function(name, zero).tolist() == [0.0] * 3


@KERNELS
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (2, 0, 4)])
def test_any_shape_is_kept(shape, kernels):
    heads, _ = heads_for("float", F64, kernels)
    q = torch.full(shape, 0.7, dtype=F64)
    assert heads.read(q).shape == shape
    out, largest = heads.read_watched(q)
    assert out.shape == shape
    assert float(largest) == (0.7 if q.numel() else 0.0)
    for name in FUNCTIONS:
        assert heads.function(name, q).shape == shape


@KERNELS
def test_numbers_that_are_not_contiguous_are_answered_alike(kernels):
    heads, _ = heads_for("float", F64, kernels)
    q = torch.rand(6, 8, dtype=F64) + 0.1
    for name in FUNCTIONS:
        assert torch.equal(heads.function(name, q.T), heads.function(name, q.T.contiguous()))
    assert torch.equal(heads.read(q.T), heads.read(q.T.contiguous()))


# -- outside of the domain ------------------------------------------------------------------------

OUTSIDE = {
    "log": (0.0, -1.0, math.inf, 2.0**300),
    "rsqrt": (0.0, -1.0, math.inf, 2.0**300),
    "sqrt": (-1.0, -1e-300, math.inf, 2.0**300),
    "reciprocal": (0.0, -0.0, 1e-300, math.inf, -(2.0**300)),
    "exp": (700.0, math.inf),
    "sin": (1e4, -1e4, math.inf),
    "cos": (1e4, -1e4, -math.inf),
    "tanh": (),
    "sigmoid": (),
    "erf": (),
}


@KERNELS
@pytest.mark.parametrize("name", OUTSIDE)
def test_what_a_head_cannot_answer_is_an_error_and_never_a_number(name, kernels):
    heads, _ = heads_for("float", F64, kernels)
    for value in (*OUTSIDE[name], math.nan):
        q = torch.tensor([0.5, value, 0.25], dtype=F64)
        assert heads.function(name, q).isnan().tolist() == [False, True, False]
        with pytest.raises(OutOfDomain, match=f"The head of {name} met .* certified for .* only"):
            heads.check(name, q)
    heads.check(name, torch.tensor([0.5], dtype=F64))


@KERNELS
def test_a_read_outside_is_seen(kernels):
    decoded, _ = heads_for("float", F64, kernels)
    fixed = Heads("fixed", radius=2.0, kernels=kernels)
    for heads, value in ((fixed, 2.5), (fixed, math.nan), (decoded, 2.0**300), (decoded, math.nan)):
        q = torch.tensor([1.0, value, 0.0], dtype=F64)
        largest = heads.read_watched(q)[1]
        assert float(largest) == value or (math.isnan(value) and bool(largest.isnan()))
        with pytest.raises(OutOfDomain, match="a product met"):
            heads.check("read", q)
    assert bool(decoded.read(torch.tensor([2.0**300], dtype=F64)).isnan())


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "double"},
        {"radius": 0.0},
        {"radius": math.inf},
        {"dtype": torch.float16},
        {"exponents": (-3, 4)},
        {"exponents": (2, 4)},
        {"exponents": (-1000, 1000)},
        {"turns": 0},
        {"kernels": "cuda"},
    ],
)
def test_impossible_options_are_named(options):
    with pytest.raises(InvalidParameter, match=next(iter(options)).replace("mode", "heads")):
        Heads(**options)


# -- blocks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [F64, F32], ids=["float64", "float32"])
def test_an_answer_does_not_depend_on_what_stands_beside_it(dtype):
    """The last numbers of a tensor are taken in other blocks than the first."""
    heads, _ = heads_for("float", dtype, "cpp")
    q = sizes(201, -20, 4, torch.Generator().manual_seed(3), dtype)
    for name in ("read", *FUNCTIONS):
        answer = heads.read if name == "read" else (lambda x, name=name: heads.function(name, x))
        whole = answer(q)
        for cut in (1, 7, 8, 31, 33, 64, 130):
            parts = torch.cat([answer(q[:cut]), answer(q[cut:])])
            assert bool(((parts - whole).abs() <= 4 * torch.finfo(dtype).eps * whole.abs()).all())
        largest = heads.read_watched(q)[1]
        assert float(largest) == float(q.abs().max())


@pytest.mark.slow
@KERNELS
def test_compiled_programs_see_the_heads(kernels):
    heads, _ = heads_for("fixed", F64, kernels)
    heads.prepare("read", "sqrt")
    compiled = torch.compile(
        lambda q: heads.function("sqrt", heads.read(q) + 1) * 2, fullgraph=True
    )
    q = torch.rand(5, 3, dtype=F64)
    plain = heads.function("sqrt", heads.read(q) + 1) * 2
    assert bool(((compiled(q) - plain).abs() <= 1e-14).all())


# -- the cost of having them ----------------------------------------------------------------------


def test_heads_are_fitted_once_per_process_and_fast():
    Heads("float").function("sqrt", torch.ones(1, dtype=F64))
    fitted = fitted_ratio("sqrt", F64)
    assert Heads("fixed").ratio("sqrt") is fitted
    code = (
        "import time, torch; from icgd.transformer.gadgets.machine_heads.heads import Heads, FUNCTIONS;"
        "t = time.process_time(); h = Heads('float', kernels='torch');"
        "[h.error(name) for name in (*FUNCTIONS, 'read')]; print(time.process_time() - t)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 4.0  # about 0.3 s
