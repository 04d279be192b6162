"""Newton's iteration as a preconditioner, then gradient descent: against plain torch."""

from __future__ import annotations

import pytest
import torch

import icgd
from icgd.errors import InvalidParameter

BARS = {"spectral": 1e-12, "four": 1e-9, "sym": 1e-7, "printed": 1e-4}


def data(d: int, n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, float]:
    g = torch.Generator().manual_seed(seed)
    X = torch.randn(n, d, generator=g, dtype=torch.float64)
    y = X @ torch.randn(d, generator=g, dtype=torch.float64) + 0.1 * torch.randn(
        n, generator=g, dtype=torch.float64
    )
    query = torch.randn(3, d, generator=g, dtype=torch.float64) / 4
    return X, y, query, 1 / float(torch.linalg.eigvalsh(X.T @ X)[-1]) ** 2


def exact(X, y, alpha: float, k: int, lr: float, steps: int) -> list[torch.Tensor]:
    S = X.T @ X
    M = alpha * S
    for _ in range(k):
        M = 2 * M - M @ S @ M
    w, path = torch.zeros(X.shape[1], dtype=torch.float64), []
    for _ in range(steps):
        w = w - lr * M @ X.T @ (X @ w - y)
        path.append(w)
    return path


@pytest.mark.parametrize("mode", BARS)
@pytest.mark.parametrize(("d", "n"), [(1, 3), (3, 8), (20, 40)])
@pytest.mark.parametrize("k", [0, 6])
def test_it_is_preconditioned_descent(mode, d, n, k):
    X, y, query, alpha = data(d, n, d + k)
    program = icgd.compile(
        icgd.LinearRegression(d, n), icgd.PreconditionedGD(0.9, k, alpha), mode=mode
    )
    run = program.run(X, y, steps=10, query=query, record="weights")
    path = exact(X, y, alpha, k, 0.9, 10)
    assert (
        max(float((a - b).abs().max()) for a, b in zip(run.history, path, strict=True))
        <= BARS[mode]
    )
    assert float((run.prediction[:, 0] - query @ path[-1]).abs().max()) <= BARS[mode]
    assert program.step.n_layers == 1


def test_a_better_preconditioner_descends_faster():
    X, y, _, alpha = data(10, 30, 0)
    best = torch.linalg.lstsq(X, y.unsqueeze(1)).solution[:, 0]
    distance = []
    for k in (0, 4, 8, 12):
        program = icgd.compile(icgd.LinearRegression(10, 30), icgd.PreconditionedGD(1.0, k, alpha))
        distance.append(float((program.run(X, y, steps=8).weights - best).norm()))
    assert distance == sorted(distance, reverse=True)
    assert distance[-1] < 1e-10 < 1e-2 < distance[0]


def test_executors_agree_and_files_keep_it(tmp_path):
    X, y, query, alpha = data(3, 6, 1)
    program = icgd.compile(icgd.LinearRegression(3, 6), icgd.PreconditionedGD(0.9, 3, alpha))
    program.save_pretrained(tmp_path)
    again = icgd.Program.from_pretrained(tmp_path)
    one = program.run(X, y, steps=4, query=query)
    for other in (
        again.run(X, y, steps=4, query=query),
        program.run(X, y, steps=4, query=query, executor="dense"),
    ):
        assert float((one.weights - other.weights).abs().max()) <= 1e-13
        assert float((one.prediction - other.prediction).abs().max()) <= 1e-13


def test_bad_arguments():
    for wrong in ({"lr": -1.0}, {"newton_steps": -1}, {"newton_steps": 1.5}, {"alpha": 0.0}):
        with pytest.raises(InvalidParameter, match=next(iter(wrong))):
            icgd.PreconditionedGD(**wrong)
    with pytest.raises(InvalidParameter, match="`lam` must be 0"):
        icgd.compile(icgd.LinearRegression(2, 4, lam=0.1), icgd.PreconditionedGD())
    with pytest.raises(InvalidParameter, match="LinearRegression"):
        icgd.compile(icgd.MLPChain(2, 2, 2), icgd.PreconditionedGD())
