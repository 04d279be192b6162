"""Whatever changes a public output of a program by more than its bound fails verification.

Every weight tensor of every construction (entry, step, read-out) is changed, some entries of it: zeroed,
flipped, scaled. Public outputs are the trained weights and the predictions, of every executor. A changed
program may pass only if none of them moved by more than the bound the verdict was given with.
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import icgd
from icgd.mechanisms.loops.regression.fused import fuse

F64 = torch.float64
CHANGES = {"zeroed": 0.0, "flipped": -1.0, "scaled": 1.001}
SET = 1e-3
"""What an entry that was 0 becomes."""
DEPTH = int(os.environ.get("ICGD_MUTANT_TENSORS", "48"))
"""Tensors that the slow campaign changes in each case and seed; 100000 for all, which takes hours."""


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


@dataclass(frozen=True)
class Case:
    """How to compile a program, to verify it, and to see everything it gives its user."""

    program: Callable[[], icgd.Program]
    verify: Callable[[icgd.Program], object]
    outputs: Callable[[icgd.Program], dict[str, Tensor]]


def flat(weights: object) -> Tensor:
    if isinstance(weights, Tensor):
        return weights.reshape(-1)
    return torch.cat([p.reshape(-1) for pair in weights for p in pair if p is not None])


def network(widths: tuple[int, ...], optimizer: object, **options: object) -> Case:
    given = {k: options.pop(k) for k in ("activation", "loss", "output", "bias") if k in options}
    net = icgd.Network(widths, **given)
    X, Y = 0.5 * normal(4, widths[0], seed=1), normal(4, widths[-1], seed=2).abs().clamp(max=1)
    if net.spec.loss.name == "logistic":
        Y = Y.round()
    init = [(W.clamp(-1, 1), b if b is None else b + 0.1) for W, b in net.init(seed=3)]
    how = {"epochs": 1} if isinstance(optimizer, icgd.SGD) else {"steps": 2}

    def outputs(program: icgd.Program) -> dict[str, Tensor]:
        run = program.run(X, Y, init=init, **how)
        return {"weights": flat(run.weights), "prediction": flat(program.predict(X, init))}

    return Case(
        lambda: icgd.compile(net, optimizer, **options),
        lambda program: icgd.verify(program, X, Y, init=init, **how),
        outputs,
    )


def linear(model: icgd.LinearModel, **options: object) -> Case:
    X = normal(6, 2)
    y = (normal(6, seed=1) > 0).to(F64) if model.spec.loss.form == "link" else normal(6, seed=1)
    w = torch.tensor([0.3, -0.2, 0.1][: 2 + model.spec.intercept], dtype=F64)

    def outputs(program: icgd.Program) -> dict[str, Tensor]:
        run = program.run(X, y, init=w, steps=3)
        return {"weights": run.weights, "prediction": flat(program.predict(X, w))}

    return Case(
        lambda: icgd.compile(model, icgd.GD(lr=0.2), **options),
        lambda program: icgd.verify(program, X, y, init=w, steps=3),
        outputs,
    )


def loop(
    problem: object,
    optimizer: object,
    *,
    fused: bool = False,
    series: bool = False,
    **options: object,
) -> Case:
    def program() -> icgd.Program:
        made = icgd.compile(problem, optimizer, **options)
        return fuse(made) if fused else made

    if series:
        X, y, query = 0.5 * normal(problem.n_steps + 1, problem.n_features), None, None
    else:
        X = normal(problem.n_examples, problem.n_features)
        y = X @ normal(problem.n_features, seed=1) + 0.1 * normal(len(X), seed=2)
        query = None if options.get("causal") else torch.stack([X[0], (X[-1] - X[0]) / 2])

    def outputs(made: icgd.Program) -> dict[str, Tensor]:
        run = made.run(X, y, steps=3, query=query)
        return {"weights": flat(run.weights), "prediction": flat(run.prediction)}

    return Case(program, lambda made: icgd.verify(made, X, y, steps=3), outputs)


GD, REGRESSION = icgd.GD(lr=0.2), icgd.LinearRegression(2, 5)
PHI = icgd.RepresentationRegression(
    2, 5, representation=[(0.7 * normal(3, 2, seed=5), 0.1 * normal(3, seed=6))], x_radius=4.0
)
CASES = {
    "cot": network((2, 3, 1), icgd.SGD(0.05)),
    "cot, relu output": network((2, 3, 2), icgd.SGD(0.05), output="relu", bias=False),
    "ridge": linear(icgd.Ridge(2, lam=0.1, intercept=True)),
    "lasso": linear(icgd.Lasso(2, lam=0.05)),
    "logistic": linear(icgd.GLM(2, "logistic")),
    "logistic, fitted": linear(icgd.GLM(2, "logistic"), native=False, n_grid=64),
    "poisson": linear(icgd.GLM(2, "poisson", lam=0.1)),
    "stack, tanh": network((2, 2, 1), GD, activation="tanh", n_relu=64, radius=6.0),
    "stack, relu": network((2, 3, 1), GD),
    "stack, logistic": network((2, 2, 1), GD, loss="logistic", n_relu=64, radius=6.0),
    "stack, no products": network((2, 2, 1), GD, products="attention"),
    "forward, tanh": network((2, 2, 1), GD, activation="tanh", method="forward_mode", n_relu=16),
    "forward, relu": network((1, 2, 2, 1), GD, method="forward_mode"),
    "regression": loop(REGRESSION, GD),
    "regression, ridge": loop(icgd.LinearRegression(2, 5, lam=0.1), GD),
    "regression, softmax": loop(REGRESSION, GD, mode="four"),
    "representation": loop(PHI, GD),
    "fused": loop(REGRESSION, GD, fused=True),
    "fused, softmax": loop(REGRESSION, GD, mode="sym", fused=True),
    "newton": loop(REGRESSION, icgd.Newton(1e-3)),
    "newton, softmax": loop(REGRESSION, icgd.Newton(1e-3), mode="sym"),
    "decoder": loop(REGRESSION, icgd.GD(lr=0.02), causal=True),
    "decoder, softmax": loop(REGRESSION, icgd.GD(lr=0.02), causal=True, mode="sym"),
    "series": loop(icgd.Autoregression(n_features=2, order=2, n_steps=8), GD, series=True),
    "linear attention": loop(REGRESSION, GD, attention="linear"),
}

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def mutants(
    program: icgd.Program, n_tensors: int, per_tensor: int, seed: int
) -> Iterator[tuple[str, icgd.Program]]:
    """Changes of some entries of weight tensors, and one of the whole tensor."""
    generator = torch.Generator().manual_seed(seed)
    kinds, tensors = list(CHANGES.items()), list(program.named_parameters())
    chosen = torch.randperm(len(tensors), generator=generator)[:n_tensors].tolist()
    for which, (name, weights) in enumerate(tensors[k] for k in sorted(chosen)):
        changes = [("all flipped", slice(None), -1.0)]
        for i, entry in enumerate(
            torch.randperm(weights.numel(), generator=generator)[:per_tensor].tolist()
        ):
            label, factor = kinds[(which + i) % len(kinds)]
            changes.append((f"[{entry}] {label}", slice(entry, entry + 1), factor))
        for label, where, factor in changes:
            altered = copy.deepcopy(program)
            attention = getattr(altered.step, "attention", None)
            altered.codec._like = [altered.step.like if attention is None else attention.like]
            entries = dict(altered.named_parameters())[name].data.view(-1)
            before = entries[where].clone()
            entries[where] = torch.where(before == 0, SET, before * factor)
            yield f"{name} {label}", altered


def outputs(case: Case, program: icgd.Program) -> dict[str, Tensor] | None:
    """What the program gives its user; None if it refuses."""
    try:
        return case.outputs(program)
    except icgd.IcgdError:
        return None


def passes(case: Case, program: icgd.Program) -> tuple[bool, float, float]:
    """(passed, bound on weights, bound on predictions)."""
    try:
        check = case.verify(program)
    except icgd.IcgdError:
        return False, math.nan, math.nan
    weights = check.global_bound
    if hasattr(check, "prediction_bound"):
        return check.passed, weights, check.prediction_bound
    bounds = [
        p.bound
        for p in check.probes
        if "prediction" in str(vars(p).get("name", vars(p).get("kind")))
    ]
    return check.passed, weights, max(bounds)


def survivors(name: str, n_tensors: int, per_tensor: int, seed: int) -> tuple[int, list[str]]:
    """How many changes were rejected, and those that passed although an output moved beyond its bound."""
    case = CASES[name]
    program = case.program()
    right = case.outputs(program)
    assert passes(case, program)[0], "the program itself must pass"
    rejected, wrong = 0, []
    for label, altered in mutants(program, n_tensors, per_tensor, seed):
        passed, weights, predictions = passes(case, altered)
        if not passed:
            rejected += 1
            continue
        got = outputs(case, altered)
        if got is None:
            wrong.append(f"{label}: refuses data")
            continue
        for what, bound in (("weights", weights), ("prediction", predictions)):
            # Both programs are within the bound of the exact answer, so two bounds of each other.
            moved = float((got[what] - right[what]).abs().max())
            if not moved <= 2 * bound:
                wrong.append(f"{label}: {what} moved by {moved:.3g}, bound {bound:.3g}")
    return rejected, wrong


@pytest.mark.parametrize("name", CASES)
def test_changes_of_a_sample_of_weights_are_noticed(name: str) -> None:
    rejected, wrong = survivors(name, n_tensors=12, per_tensor=1, seed=0)
    assert wrong == []
    assert rejected > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", [1, 2])
def test_changes_of_weights_are_noticed_in_depth(name: str, seed: int) -> None:
    rejected, wrong = survivors(name, n_tensors=DEPTH, per_tensor=2, seed=seed)
    assert wrong == []
    assert rejected > 0


@pytest.mark.parametrize(
    "name", ["newton", "regression", "representation", "linear attention", "fused"]
)
def test_answers_with_the_wrong_sign_fail(name: str) -> None:
    """The read-out alone: weights stay what they were."""
    case = CASES[name]
    program = case.program()
    layer = program.step if program.readout is None else program.readout
    for path, weights in layer.named_parameters():
        if path.endswith(("answer.value", "answer.scale", "V")):
            weights.data.neg_()
            break
    else:
        raise AssertionError([path for path, _ in layer.named_parameters()])
    check = case.verify(program)
    assert check.verdict == "failed"
    assert any("Predictions are off by" in note for note in check.notes)
