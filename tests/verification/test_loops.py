"""icgd.verify for looped programs: errors below their bounds, and broken weights found."""

from __future__ import annotations

import copy

import pytest
import torch

import icgd
from icgd.errors import AssumptionViolated, InvalidParameter

KINDS = ("gd", "ridge", "newton", "decoder", "linear")
MODES = ("spectral", "sym", "four", "printed")


def data(d: int, n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    X = torch.randn(n, d, generator=g, dtype=torch.float64)
    return X, X @ torch.randn(d, generator=g, dtype=torch.float64)


def compiled(kind: str, X: torch.Tensor, mode: str = "spectral") -> icgd.Program:
    n, d = X.shape
    top = float(torch.linalg.eigvalsh(X.T @ X / n)[-1])
    problem = icgd.LinearRegression(d, n, lam=0.1 if kind == "ridge" else 0.0)
    if kind == "newton":
        return icgd.compile(problem, icgd.Newton(1 / (n * top) ** 2), mode=mode)
    if kind == "linear":
        return icgd.compile(problem, icgd.GD(1 / top), attention="linear")
    lr = 0.02 if kind == "decoder" else 1 / (top + 0.1)
    return icgd.compile(problem, icgd.GD(lr), mode=mode, causal=kind == "decoder")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("d", "n", "seed"), [(1, 4, 0), (3, 8, 1), (5, 20, 2)])
def test_errors_stay_below_their_bounds(kind, mode, d, n, seed):
    if kind == "linear" and mode != "spectral":
        pytest.skip("linear attention has no modes")
    X, y = data(d, n, seed)
    check = icgd.verify(compiled(kind, X, mode), X, y, steps=15)
    assert check.passed
    assert len(check.rounds) == 15
    assert all(r.error <= r.global_bound for r in check.rounds)
    if mode == "spectral":
        assert check.max_error <= 1e-12
        assert check.global_bound <= 1e-8
    else:
        assert any("leading order" in note for note in check.notes)
    assert "passed" in str(check.table().title)
    assert check.to_dict()["passed"] is True


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("executor", ["structured", "dense"])
def test_every_executor(kind, executor):
    X, y = data(2, 5, 3)
    assert icgd.verify(compiled(kind, X), X, y, steps=3, executor=executor).passed


@pytest.mark.parametrize("kind", ["gd", "newton", "decoder", "linear"])
def test_a_changed_weight_is_found(kind):
    X, y = data(3, 8, 0)
    program = compiled(kind, X)
    names = [name for name, _ in program.step.named_parameters()]
    assert names
    for name in names:
        altered = copy.deepcopy(program)
        altered.codec._like = [altered.step.like]
        parameter = dict(altered.step.named_parameters())[name]
        with torch.no_grad():
            parameter.mul_(1.001)
        if torch.equal(parameter, dict(program.step.named_parameters())[name]):
            continue
        assert not icgd.verify(altered, X, y, steps=5).passed, name


@pytest.mark.parametrize("d", [4, 7])
@pytest.mark.parametrize("seed", [0, 1])
def test_every_coordinate_of_a_readout_is_asked_on_rows_that_share_none(d, seed):
    """Of one-hot rows, two queries show two or three coordinates; a wrong sign in another must not pass."""
    X = torch.eye(d, dtype=torch.float64)
    y = torch.arange(1.0, d + 1, dtype=torch.float64)
    program = icgd.compile(icgd.LinearRegression(d, d), icgd.Newton(1.0))
    assert icgd.verify(program, X, y, steps=3, seed=seed).passed
    for part in ("key", "query"):
        for row in range(d):
            altered = copy.deepcopy(program)
            altered.codec._like = [altered.step.like]
            with torch.no_grad():
                getattr(altered.readout.sublayers["answer"], part)[row].neg_()
            check = icgd.verify(altered, X, y, steps=3, seed=seed)
            assert check.verdict == "failed", (part, row)
            assert check.prediction_error > 1e-2


def test_a_series_is_verified_as_well():
    g = torch.Generator().manual_seed(0)
    series = torch.randn(21, 2, generator=g, dtype=torch.float64)
    problem = icgd.Autoregression(n_features=2, order=2, n_steps=20)
    program = icgd.compile(problem, icgd.GD(lr=0.1))
    check = icgd.verify(program, series, None, steps=10)
    assert check.passed
    assert check.max_error <= 1e-12


def test_what_cannot_be_verified_says_so():
    X, y = data(3, 8, 0)
    program = compiled("gd", X)
    with pytest.raises(InvalidParameter, match="`steps` must"):
        icgd.verify(program, X, y)
    with pytest.raises(InvalidParameter, match="`epochs` must be left out"):
        icgd.verify(program, X, y, epochs=2)
    with pytest.raises(InvalidParameter, match="be one problem"):
        icgd.verify(program, X.expand(2, 8, 3), y.expand(2, 8), steps=2)
    steep = icgd.compile(icgd.LinearRegression(3, 8), icgd.GD(lr=50.0))
    with pytest.raises(AssumptionViolated, match="above 2"):
        icgd.verify(steep, X, y, steps=2)
    chain = icgd.compile(icgd.MLPChain(2, 2, 4), icgd.GD(lr=0.1))
    with pytest.raises(InvalidParameter, match="looped_chain"):
        icgd.verify(chain, X, y, steps=2)


@pytest.mark.filterwarnings("ignore:Features have singular values")
def test_a_vacuous_bound_is_no_verdict():
    """Heads far out of their linear range: the bound says so, and nothing passes."""
    X, y = data(3, 10, 0)
    for wrong in ({"sink": 2.0}, {"scale": 1.0}):
        program = icgd.compile(icgd.LinearRegression(3, 10), icgd.GD(0.3), mode="sym", **wrong)
        check = icgd.verify(program, X, y, steps=3)
        assert not check.passed
        assert any("vacuous" in note for note in check.notes)
    single = icgd.compile(icgd.LinearRegression(5, 20), icgd.Newton(), dtype=torch.float32)
    X, y = data(5, 20, 0)
    check = icgd.verify(single, X, y, steps=40)
    assert not check.passed


@pytest.mark.parametrize(
    "wrong",
    [
        {"scale": 0.0},
        {"scale": -1.0},
        {"sink": float("nan")},
        {"sink": -5.0},
        {"sink": 800.0},
        {"n_grid": 40},
    ],
)
def test_options_of_the_linear_range_are_checked(wrong):
    with pytest.raises(InvalidParameter, match=next(iter(wrong))):
        icgd.compile(icgd.LinearRegression(3, 10), icgd.GD(0.3), mode="sym", **wrong)


def test_options_that_mean_nothing_in_spectral_mode_are_refused():
    for wrong in ({"sink": 20.0}, {"scale": 1e-5}):
        with pytest.raises(InvalidParameter, match="spectral"):
            icgd.compile(icgd.LinearRegression(3, 10), icgd.GD(0.3), **wrong)


def test_weights_that_cannot_be_read_warn():
    X, y = data(3, 10, 0)
    program = icgd.compile(icgd.LinearRegression(3, 10), icgd.GD(0.3))
    program.run(X, y, steps=2)
    with pytest.warns(UserWarning, match="read off residuals"):
        program.run(X * 1e-8, y, steps=2)
