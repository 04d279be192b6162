"""The chain of thought of linear attention against gradient descent written out."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import pytest
import torch

import icgd
from icgd.errors import AssumptionViolated, InvalidFile, InvalidParameter

SIZES = [(1, 1), (1, 7), (3, 2), (5, 20), (20, 40)]
BAR = 1e-12


def example(d, n, seed=0, batch=()):
    g = torch.Generator().manual_seed(seed)
    X = torch.randn(*batch, n, d, generator=g, dtype=torch.float64)
    y = (X @ torch.randn(*batch, d, 1, generator=g, dtype=torch.float64)).squeeze(-1)
    y = y + 0.1 * torch.randn(y.shape, generator=g, dtype=torch.float64)
    return X, y, torch.randn(*batch, 4, d, generator=g, dtype=torch.float64)


def step_size(X):
    return 1.5 / float(torch.linalg.matrix_norm(X.mT @ X / X.shape[-2], ord=2).max())


def descent(X, y, lr, k, w=None):
    """w_1 .. w_k, nothing of the package."""
    w = torch.zeros(*X.shape[:-2], X.shape[-1], dtype=X.dtype) if w is None else w
    path = []
    for _ in range(k):
        residual = (X @ w.unsqueeze(-1)).squeeze(-1) - y
        w = w - lr / X.shape[-2] * (X.mT @ residual.unsqueeze(-1)).squeeze(-1)
        path.append(w)
    return path


def compiled(d, n, lr, **options):
    return icgd.compile(
        icgd.LinearRegression(n_features=d, n_examples=n),
        icgd.GD(lr),
        attention="linear",
        **options,
    )


@pytest.mark.parametrize("executor", ["structured", "dense"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", range(5))
def test_every_step_is_gradient_descent(size, seed, executor):
    X, y, query = example(*size, seed)
    lr = step_size(X)
    run = compiled(*size, lr).run(X, y, steps=100, query=query, executor=executor, record="weights")
    path = descent(X, y, lr, 100)
    assert len(run.history) == 100
    for ours, exact in zip(run.history, path, strict=True):
        assert float((ours - exact).abs().max()) <= BAR
    assert torch.equal(run.weights, run.history[-1])
    assert float((run.prediction.squeeze(-1) - query @ path[-1]).abs().max()) <= BAR
    assert float((path[-1] - path[0]).abs().max()) > 1e-3 or size[1] == 1


def test_the_literal_matrices_are_the_three_blocks():
    d, lr = 3, 0.25
    program = compiled(d, 5, lr)
    V, W = program.step.V, program.step.W
    assert V.shape == W.shape == (2 * d + 2, 2 * d + 2)
    x, y, w, one = range(d), d, range(d + 1, 2 * d + 1), 2 * d + 1
    expected_V, expected_W = torch.zeros_like(V), torch.zeros_like(W)
    for a, b in zip(x, w, strict=True):
        expected_V[b, a], expected_W[a, b] = -lr, 1.0
    expected_W[y, one] = -1.0
    assert torch.equal(V, expected_V)
    assert torch.equal(W, expected_W)


def test_the_formula_in_columns_gives_the_same_tokens():
    """Z + V Z (Z^T W Z) / n with tokens as columns, as it is printed; all D rows of the last column."""
    d, n, lr, k = 4, 9, 0.3, 12
    X, y, _ = example(d, n, 3)
    program = compiled(d, n, lr)
    V, W = program.step.V, program.step.W
    Z = torch.zeros(2 * d + 2, n + 1, dtype=torch.float64)
    Z[:d, :n], Z[d, :n], Z[-1, n] = X.T, y, 1.0
    for _ in range(k):
        f = Z + V @ Z @ (Z.T @ W @ Z) / n
        Z = torch.cat([Z, f[:, -1:]], dim=1)
    block = program.run(X, y, steps=k, record="trace").trace[-1].block
    tokens = program.layout.pack(block.slots, batch=(n + 1 + k,))
    assert float((tokens - Z.T).abs().max()) <= BAR


def test_the_prompt_grows_by_one_token_a_step_and_keeps_the_old_ones():
    d, n, k = 3, 6, 8
    X, y, _ = example(d, n)
    run = compiled(d, n, 0.3).run(X, y, steps=k, record="trace")
    path = descent(X, y, 0.3, k)
    assert len(run.trace) == k
    for i, entry in enumerate(run.trace, 1):
        w, one, x = (entry.block.value(name) for name in ("w", "one", "x"))
        assert w.shape == (n + 1 + i, d)
        assert torch.equal(x[:n], X)
        assert not w[: n + 1].any()
        assert float((w[n + 1 :] - torch.stack(path[:i])).abs().max()) <= BAR
        assert one.tolist() == [0.0] * n + [1.0] * (i + 1)
        assert not x[n:].any()
    assert run.cost.blocks == k


def test_old_tokens_of_the_chain_contribute_nothing():
    """The same step, with and without what was thought before."""
    d, n = 3, 6
    X, y, _ = example(d, n)
    program = compiled(d, n, 0.3)
    ten = program.run(X, y, steps=10, executor="dense").weights
    four = program.run(X, y, steps=4, executor="dense").weights
    six_more = program.run(X, y, steps=6, init=four, executor="dense").weights
    assert float((ten - six_more).abs().max()) <= 1e-15


@pytest.mark.parametrize("executor", ["structured", "dense"])
def test_many_problems_at_once(executor):
    X, y, query = example(4, 11, batch=(3,))
    start = torch.randn(3, 4, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    lr = step_size(X)
    run = compiled(4, 11, lr).run(X, y, steps=30, init=start, query=query, executor=executor)
    exact = descent(X, y, lr, 30, start)[-1]
    assert float((run.weights - exact).abs().max()) <= BAR
    assert float((run.prediction - query @ exact.unsqueeze(-1)).abs().max()) <= BAR
    assert float((run.predict(query) - run.prediction).abs().max()) <= BAR


def test_one_query_and_predictions_for_given_weights():
    X, y, query = example(4, 11)
    program = compiled(4, 11, 0.3)
    run = program.run(X, y, steps=5, query=query[0])
    assert run.prediction.shape == (1, 1)
    assert float((run.prediction - query[0] @ run.weights).abs().max()) <= BAR
    w = torch.tensor([1.0, -2.0, 0.5, 0.0], dtype=torch.float64)
    assert float((program.predict(query, w).squeeze(-1) - query @ w).abs().max()) <= 1e-15
    assert program.run(X, y, steps=5).prediction is None


@pytest.mark.parametrize("executor", ["structured", "dense"])
def test_altered_weights_are_executed_as_they_are(executor):
    """Where chain tokens do speak, the fast executor must not leave them out."""
    d, n, k = 3, 6, 5
    X, y, _ = example(d, n)
    program = compiled(d, n, 0.3)
    g = torch.Generator().manual_seed(0)
    for weight in (program.step.V, program.step.W):
        weight += 0.05 * torch.randn(weight.shape, generator=g, dtype=torch.float64)
    V, W = program.step.V, program.step.W
    Z = torch.zeros(2 * d + 2, n + 1, dtype=torch.float64)
    Z[:d, :n], Z[d, :n], Z[-1, n] = X.T, y, 1.0
    for _ in range(k):
        Z = torch.cat([Z, (Z + V @ Z @ (Z.T @ W @ Z) / n)[:, -1:]], dim=1)
    run = program.run(X, y, steps=k, executor=executor)
    assert float((run.weights - Z[d + 1 : 2 * d + 1, -1]).abs().max()) <= BAR
    assert float((run.weights - descent(X, y, 0.3, k)[-1]).abs().max()) > 1e-3


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("seed", range(3))
def test_one_step_is_as_exact_as_certified(dtype, seed):
    """In exact rational arithmetic on the very numbers the program gets."""
    d, n, lr = 3, 8, 0.25
    X, y, _ = example(d, n, seed)
    X, y = X.to(dtype), (y / (1.01 * float(y.abs().max()))).to(dtype)
    w = torch.tensor([0.3, -0.5, 0.7], dtype=dtype)
    program = compiled(d, n, lr, dtype=dtype)
    assert float(X.norm(dim=-1).max()) <= program.certificate.domain
    rows = [[Fraction(float(v)) for v in row] for row in X]
    start, labels = [Fraction(float(v)) for v in w], [Fraction(float(v)) for v in y]
    gaps = [
        sum(a * b for a, b in zip(r, start, strict=True)) - t
        for r, t in zip(rows, labels, strict=True)
    ]
    exact = [
        start[a] - Fraction(lr) / n * sum(g * r[a] for g, r in zip(gaps, rows, strict=True))
        for a in range(d)
    ]
    for executor in ("structured", "dense"):
        made = program.run(X, y, steps=1, init=w, executor=executor).weights
        off = max(abs(Fraction(float(v)) - e) for v, e in zip(made, exact, strict=True))
        assert 0 <= float(off) <= program.certificate.sup_error
    assert program.certificate.sup_error < 1e3 * torch.finfo(dtype).eps


def test_one_layer_one_head_and_the_shape_of_a_token():
    """Theorem 3.2: a single layer with a single head, tokens of 2d + 2 entries."""
    program = compiled(7, 9, 0.1)
    assert program.layout.width == 16
    assert not program.mask.replaces
    assert program.step.dense_parameters(1) == 2 * 16**2
    assert int((program.step.V != 0).sum() + (program.step.W != 0).sum()) == 2 * 7 + 1


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_save_and_load(tmp_path, dtype):
    X, y, query = example(3, 5)
    program = compiled(3, 5, 0.2, dtype=dtype)
    program.save_pretrained(tmp_path)
    again = icgd.Program.from_pretrained(tmp_path)
    for executor in ("structured", "dense"):
        runs = [p.run(X, y, steps=9, query=query, executor=executor) for p in (program, again)]
        assert torch.equal(runs[0].weights, runs[1].weights)
        assert torch.equal(runs[0].prediction, runs[1].prediction)
    program.step.V[0, 0] = 1.0
    program.save_pretrained(tmp_path)
    with pytest.raises(InvalidFile, match="not the ones"):
        icgd.Program.from_pretrained(tmp_path)


def test_the_automatic_step_size_is_stable_within_the_radius():
    X, y, _ = example(5, 20)
    program = compiled(5, 20, "auto")
    lr = program.config["optimizer"]["lr"]
    assert lr == 1 / icgd.LinearRegression(5, 20).radius ** 2
    run = program.run(X, y, steps=50)
    assert float((run.weights - descent(X, y, lr, 50)[-1]).abs().max()) <= BAR


def test_too_large_a_step_warns_and_an_overflow_is_an_error():
    X, y, _ = example(3, 5)
    with pytest.warns(UserWarning, match=r"lr \* lambda_max"):
        run = compiled(3, 5, 3.0).run(X, y, steps=20)
    exact = descent(X, y, 3.0, 20)[-1]
    assert float((run.weights / exact - 1).abs().max()) <= 1e-9
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(AssumptionViolated, match=r"overflowed.*Lower lr"):
            compiled(3, 5, 3.0).run(X, y, steps=5000)


PLAIN = icgd.LinearRegression(3, 5)


@pytest.mark.parametrize(
    ("problem", "optimizer", "options", "match"),
    [
        (icgd.LinearRegression(3, 5, 2), icgd.GD(0.1), {}, "n_outputs"),
        (icgd.LinearRegression(3, 5, lam=0.1), icgd.GD(0.1), {}, "lam"),
        (PLAIN, icgd.GD(0.1, box=1.0), {}, "optimizer"),
        (PLAIN, icgd.SGD(0.1), {}, "optimizer"),
        (PLAIN, icgd.GD(0.1), {"mode": "sym"}, "mode"),
        (icgd.RepresentationRegression(3, 5), icgd.GD(0.1), {}, "LinearRegression"),
    ],
)
def test_what_cannot_be_compiled_says_why(problem, optimizer, options, match):
    with pytest.raises(InvalidParameter, match=match):
        icgd.compile(problem, optimizer, attention="linear", **options)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"X": torch.zeros(4, 3)}, "`X` must have shape"),
        ({"y": torch.zeros(4)}, "`y` must have shape"),
        ({"query": torch.zeros(2, 4)}, "`query` must have shape"),
        ({"query": torch.zeros(1, 2, 3)}, "`query` must have shape"),
        ({"init": torch.zeros(2)}, "`init` must have shape"),
        ({"steps": 0}, "`steps`"),
        ({"steps": None}, "`steps`"),
        ({"epochs": 2}, "`epochs`"),
        ({"executor": "sparse"}, "`executor`"),
        ({"X": torch.full((5, 3), math.nan)}, "`X` must be finite"),
    ],
)
def test_wrong_arguments(change, match):
    X, y, _ = example(3, 5)
    given = {"X": X, "y": y, "steps": 3, **change}
    with pytest.raises(InvalidParameter, match=match):
        compiled(3, 5, 0.1).run(given.pop("X"), given.pop("y"), **given)


def test_wrong_weights_for_predictions():
    with pytest.raises(InvalidParameter, match="`weights` must have shape"):
        compiled(3, 5, 0.1).predict(torch.zeros(2, 3), torch.zeros(4))
