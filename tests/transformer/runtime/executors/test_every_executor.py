"""Every executor of every construction refuses the same inputs, and computes the same from the others.

Data are scaled up from well inside the certified range to far beyond it. The edge is found by bisection on
the structured executor; inside, on both sides of the edge and beyond it, all executors must agree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import pytest
import torch
from torch import Tensor

import icgd
from icgd.mechanisms.loops.regression.fused import fuse

F64 = torch.float64


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


@dataclass(frozen=True)
class Case:
    """A program, what it does with data scaled by a factor, and how far its executors may be apart.

    apart  part of the largest number; literal sums over tokens round a ramp's two large halves
    """

    program: Callable[[], icgd.Program]
    outcome: Callable[[icgd.Program, float, str], list[Tensor]]
    executors: tuple[str, ...] = ("structured", "dense")
    apart: float = 1e-9
    largest: float = 2.0**40


STACK = ("structured", "sparse", "dense")


def network(
    widths: tuple[int, ...],
    optimizer: object,
    method: str,
    *,
    apart: float = 1e-9,
    largest: float = 2.0**40,
    **options: object,
) -> Case:
    given = {k: options.pop(k) for k in ("activation", "loss", "output") if k in options}
    net = icgd.Network(widths, **given)

    def outcome(program: icgd.Program, factor: float, executor: str) -> list[Tensor]:
        X, Y = factor * normal(4, widths[0]), normal(4, widths[-1], seed=1).abs().clamp(max=1)
        if net.spec.loss.name == "logistic":
            Y = Y.round()  # its targets are 0 and 1
        # Weights so small that a step changes little, whatever the factor.
        init = [(0.1 * W, b) for W, b in net.init(seed=2)]
        how = {"epochs": 1} if method == "cot" else {"steps": 1}
        run = program.run(X, Y, init=init, executor=executor, **how)
        parts = [p for pair in run.weights for p in pair if p is not None]
        return [*parts, program.predict(X, init, executor=executor)]

    return Case(
        lambda: icgd.compile(net, optimizer, method=method, **options),
        outcome,
        ("structured", "dense") if method == "cot" else STACK,
        apart,
        largest,
    )


def linear(model: icgd.LinearModel, **options: object) -> Case:
    def outcome(program: icgd.Program, factor: float, executor: str) -> list[Tensor]:
        X, y = factor * normal(5, 2), (normal(5, seed=1) > 0).to(F64)
        w = torch.tensor([0.3, -0.2], dtype=F64)
        run = program.run(X, y, init=w, steps=1, executor=executor)
        return [run.weights, program.predict(X, w, executor=executor)]

    return Case(lambda: icgd.compile(model, icgd.GD(lr=1e-9), **options), outcome)


def loop(
    problem: object,
    optimizer: object,
    *,
    fused: bool = False,
    series: bool = False,
    largest: float = 2.0**40,
    **options: object,
) -> Case:
    def made() -> icgd.Program:
        program = icgd.compile(problem, optimizer, **options)
        return fuse(program) if fused else program

    def outcome(program: icgd.Program, factor: float, executor: str) -> list[Tensor]:
        if series:
            run = program.run(factor * normal(9, 2), None, steps=2, executor=executor)
            return [run.weights]
        n, d = problem.n_examples, problem.n_features
        X, y = factor * normal(n, d), normal(n, seed=1)
        query = None if options.get("causal") else factor * normal(1, d, seed=2)
        run = program.run(X, y, steps=2, query=query, executor=executor)
        return [run.weights] if run.prediction is None else [run.weights, run.prediction]

    linear_attention = options.get("attention") == "linear"
    executors = ("structured", "dense") if linear_attention else STACK
    return Case(made, outcome, executors, largest=largest)


GD, REGRESSION = icgd.GD(lr=1e-6), icgd.LinearRegression(2, 4, x_radius=4.0)
PHI = icgd.RepresentationRegression(
    2, 4, representation=[(0.5 * normal(3, 2, seed=5), torch.zeros(3, dtype=F64))], x_radius=4.0
)
CASES: dict[str, Case] = {
    "cot": network((2, 3, 1), icgd.SGD(1e-6), "cot", radius=16.0),
    "cot, relu output": network((2, 3, 3, 2), icgd.SGD(1e-6), "cot", radius=16.0, output="relu"),
    "cot, hard": network((2, 2, 1), icgd.SGD(1e-6), "cot", radius=16.0, temperature="hard"),
    "ridge": linear(icgd.Ridge(2, lam=0.1), radius=16.0),
    "lasso": linear(icgd.Lasso(2, lam=0.1), radius=16.0),
    "logistic, fitted": linear(icgd.GLM(2, "logistic"), native=False, n_grid=64),
    "poisson": linear(icgd.GLM(2, "poisson"), radius=16.0),
    "stack, tanh": network((2, 2, 1), GD, "stack", activation="tanh", n_relu=16, apart=1e-8),
    "stack, relu": network((2, 3, 1), GD, "stack", apart=1e-6),
    "stack, logistic": network((2, 2, 2), GD, "stack", loss="logistic", n_relu=16, apart=1e-6),
    "stack, no products": network(
        (2, 2, 1), GD, "stack", activation="tanh", n_relu=16, products="attention", apart=1e-8
    ),
    "forward, softplus": network(
        (2, 2, 1), GD, "forward_mode", activation="softplus", n_relu=16, apart=1e-6
    ),
    "forward, three layers": network(
        (1, 2, 2, 1), GD, "forward_mode", activation="tanh", n_relu=16, apart=1e-6
    ),
    "forward, relu": network((2, 2, 1), GD, "forward_mode", apart=1e-5),
    "regression": loop(REGRESSION, GD),
    "regression, softmax": loop(REGRESSION, GD, mode="sym"),
    "representation": loop(PHI, GD),
    "fused": loop(REGRESSION, GD, fused=True),
    "newton": loop(REGRESSION, icgd.Newton(1e-6)),
    "preconditioned": loop(REGRESSION, icgd.PreconditionedGD(1e-6, 2, 1e-6)),
    "decoder": loop(REGRESSION, GD, causal=True),
    "series": loop(icgd.Autoregression(n_features=2, order=2, n_steps=8), GD, series=True),
    "linear attention": loop(icgd.LinearRegression(2, 4), GD, attention="linear", largest=2.0**900),
}

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@lru_cache(maxsize=1)
def compiled(name: str) -> icgd.Program:
    return CASES[name].program()


def outcome(name: str, factor: float, executor: str) -> list[Tensor] | str:
    try:
        return CASES[name].outcome(compiled(name), factor, executor)
    except icgd.AssumptionViolated as refused:
        return str(refused)


@lru_cache(maxsize=1)
def edge(name: str) -> tuple[float, float]:
    """(factor that runs, factor that is refused), two parts in a million apart."""
    low, high = 2.0**-6, CASES[name].largest
    assert not isinstance(outcome(name, low, "structured"), str)
    assert isinstance(outcome(name, high, "structured"), str)
    while high > low * (1 + 2e-6):
        middle = (low * high) ** 0.5
        if isinstance(outcome(name, middle, "structured"), str):
            high = middle
        else:
            low = middle
    return low, high


@pytest.mark.parametrize("where", ["inside", "near", "at", "beyond", "far beyond"])
@pytest.mark.parametrize("name", CASES)  # varies slowest: its program and its edge are found once
def test_all_executors_refuse_the_same_inputs(name: str, where: str) -> None:
    low, high = edge(name)
    # "at" is a part in a million inside the edge, which rounding cannot move so far.
    factor = {
        "inside": low / 8,
        "near": low * 0.99,
        "at": low * (1 - 1e-6),
        "beyond": high * (1 + 1e-6),
        "far beyond": high * 8,
    }[where]
    got = {executor: outcome(name, factor, executor) for executor in CASES[name].executors}
    inside = where in ("inside", "near", "at")
    for executor, result in got.items():
        assert isinstance(result, str) != inside, (executor, result)
    if not inside:
        return
    first, *others = got.values()
    for other in others:
        for a, b in zip(first, other, strict=True):
            size = max(1.0, float(a.abs().max()))
            assert float((a - b).abs().max()) <= CASES[name].apart * size


@pytest.mark.parametrize("executor", STACK)
def test_a_stack_does_not_extrapolate_its_fits(executor: str) -> None:
    """W = 2, b = 1/2 at x = 6 asks softplus at 12.5, and its fit ends at 8."""
    net = icgd.Network((1, 1, 1), "softplus")
    weights = [
        (torch.tensor([[2.0]], dtype=F64), torch.tensor([0.5], dtype=F64)),
        (torch.tensor([[1.0]], dtype=F64), torch.tensor([0.0], dtype=F64)),
    ]
    for method in ("forward_mode", "stack"):
        program = icgd.compile(net, icgd.GD(lr=0.1), method=method, radius=8.0)
        with pytest.raises(icgd.AssumptionViolated, match=r"\|s\| = 12\.5 at slot"):
            program.predict([[6.0]], weights, executor=executor)


@pytest.mark.parametrize("executor", STACK)
@pytest.mark.parametrize("method", ["stack", "forward_mode"])
def test_every_executor_of_a_stack_counts_the_same_kinks(method: str, executor: str) -> None:
    """Three units, one of them 1e-9 above its corner for one of two examples."""
    net = icgd.Network((1, 3, 1))
    program = icgd.compile(net, icgd.GD(lr=0.1), method=method)
    W = torch.tensor([[1.0], [2.0], [-1.0]], dtype=F64)
    b = torch.tensor([-0.5 + 1e-9, 0.25, 2.0], dtype=F64)
    init = [(W, b), (torch.ones(1, 3, dtype=F64), torch.zeros(1, dtype=F64))]
    run = program.run([[0.5], [1.0]], [[1.0], [0.0]], init=init, steps=1, executor=executor)
    assert (run.near_kink.count, run.near_kink.first) == (1, (1, 1, 1))


@pytest.mark.parametrize("executor", ["structured", "dense"])
def test_a_sum_that_rounds_to_zero_is_near_the_kink(executor: str) -> None:
    """0.1 + 0.2 - 0.3 is 0 or 5.6e-17, by the order it is added up in."""
    program = icgd.compile(icgd.Network((3, 1, 1)), icgd.SGD(lr=0.1))
    W = torch.tensor([[0.1, 0.2, -0.3]], dtype=F64)
    init = [
        (W, torch.zeros(1, dtype=F64)),
        (torch.ones(1, 1, dtype=F64), torch.zeros(1, dtype=F64)),
    ]
    run = program.run([[1.0, 1.0, 1.0]], [[1.0]], init=init, executor=executor)
    assert (run.near_kink.count, run.near_kink.first) == (1, (1, 1, 1))


def test_zeros_that_were_never_summed_are_no_kink() -> None:
    """A row of zeros without a bias is closed, in the program and in torch."""
    net = icgd.Network((3, 4, 2), bias=False)
    run = icgd.compile(net, icgd.SGD(lr=0.1)).run(
        torch.zeros(2, 3, dtype=F64), normal(2, 2), init=net.init(seed=0)
    )
    assert run.near_kink.count == 0


@pytest.mark.parametrize("executor", ["structured", "dense"])
def test_weights_beyond_the_gates_are_refused_by_every_executor(executor: str) -> None:
    program = icgd.compile(icgd.Network((1, 1, 1)), icgd.SGD(lr=1e-9))
    huge = torch.tensor([[1e12]], dtype=F64)
    init = [(huge, torch.zeros(1, dtype=F64)), (0 * huge, torch.zeros(1, dtype=F64))]
    with pytest.raises(icgd.AssumptionViolated, match="capacity"):
        program.run([[1e-12]], [[0.0]], init=init, executor=executor)
