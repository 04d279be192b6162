"""Linear models in context: exact gradient descent, by literal matrices and by structure alike."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from cases import by_name
from linear_cases import LINEAR, LINEAR_BY_NAME, SHAPES, LinearCase
from sklearn.datasets import load_breast_cancer

import icgd

STEPS = 30


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("case", LINEAR, ids=by_name)
def test_the_chain_of_thought_is_gradient_descent(case: LinearCase, shape: tuple[int, int]) -> None:
    n, d = shape
    problem = case.make(d)
    X, y = case.data(n, d)
    program = icgd.compile(problem, icgd.GD(case.lr), **case.options)
    run = program.run(X, y, steps=STEPS, record="weights")
    exact = case.exact_gd(problem, X, y, STEPS)
    assert run.history is not None
    errors = [float((a - b).abs().max()) for a, b in zip(run.history, exact, strict=True)]
    # A head with a visible error adds it at most once a step, times lr and the size of x.
    allowed = 1e-12
    if not case.exact:
        allowed += STEPS * case.lr * program.certificate.sup_error * float(X.abs().max())
    assert max(errors) <= allowed
    assert torch.equal(run.weights, run.history[-1])


@pytest.mark.parametrize("case", LINEAR, ids=by_name)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": "hard", "n_grid": 16, "radius": 8.0},
        {"rho": 0.8, "margin": 6.0, "n_grid": 40, "radius": 8.0},
    ],
    ids=["default", "hard", "blurred"],
)
def test_dense_and_structured_are_one_function(
    case: LinearCase, options: dict[str, object]
) -> None:
    """Also where the head's own error is plain to see."""
    problem = case.make(3)
    X, y = case.data(6, 3, seed=1)
    if options.get("temperature") == "hard" or case.name == "joint":
        y = y.clamp(-2, 2)
    program = icgd.compile(problem, icgd.GD(0.05), **{**case.options, **options})
    fast = program.run(X, y, steps=8, record="weights")
    slow = program.run(X, y, steps=8, record="weights", executor="dense")
    assert fast.history is not None
    assert slow.history is not None
    # A tie between two levels may fall either way in hard mode; rounding never decides here.
    worst = max(float((a - b).abs().max()) for a, b in zip(fast.history, slow.history, strict=True))
    assert worst <= 1e-12
    assert float((fast.predict(X) - slow.predict(X)).abs().max()) <= 1e-12


def test_a_hard_head_is_visibly_wrong() -> None:
    """Else the comparison above would prove nothing."""
    case = LINEAR_BY_NAME["ridge"]
    problem, (X, y) = case.make(3), case.data(6, 3, seed=1)
    program = icgd.compile(problem, icgd.GD(case.lr), temperature="hard", n_grid=16, radius=8.0)
    run = program.run(X, y, steps=8)
    assert float((run.weights - case.exact_gd(problem, X, y, 8)[-1]).abs().max()) > 1e-3


@pytest.mark.parametrize("case", LINEAR, ids=by_name)
def test_a_batch_is_every_problem_by_itself(case: LinearCase) -> None:
    problem = case.make(3)
    pairs = [case.data(5, 3, seed) for seed in range(4)]
    X, y = torch.stack([x for x, _ in pairs]), torch.stack([t for _, t in pairs])
    program = icgd.compile(problem, icgd.GD(case.lr), **case.options)
    together = program.run(X, y, steps=10)
    for i, (x, t) in enumerate(pairs):
        alone = program.run(x, t, steps=10)
        assert float((together.weights[i] - alone.weights).abs().max()) <= 1e-13
        assert float((together.predict(X)[i] - alone.predict(x)).abs().max()) <= 1e-12


@pytest.mark.parametrize("case", LINEAR, ids=by_name)
def test_prediction_is_the_inverse_link_of_the_score(case: LinearCase) -> None:
    problem = case.make(3)
    X, y = case.data(9, 3)
    program = icgd.compile(problem, icgd.GD(case.lr), **case.options)
    run = program.run(X, y, steps=5)
    s = problem.scores(run.weights, X)
    links = {"logistic": torch.sigmoid, "poisson": torch.exp, "user": torch.nn.functional.softplus}
    expected = links.get(case.name.split("_")[0], lambda v: v)(s)
    assert run.predict(X).shape == (9,)
    assert float((run.predict(X) - expected).abs().max()) <= 1e-11


def test_weights_depend_on_the_problem_alone() -> None:
    """Compiled twice, run on different data in between: the same bits."""
    first = icgd.compile(icgd.GLM(3, "logistic", 0.1), icgd.GD(0.1))
    before = {name: value.clone() for name, value in first.state_dict().items()}
    X, y = LINEAR_BY_NAME["logistic"].data(7, 3)
    first.run(X, y, steps=3)
    second = icgd.compile(icgd.GLM(3, "logistic", 0.1), icgd.GD(0.1))
    assert before.keys() == second.state_dict().keys()
    for name, value in second.state_dict().items():
        assert torch.equal(value, before[name])
        assert torch.equal(first.state_dict()[name], before[name])


def test_one_block_is_kept_however_long_the_run() -> None:
    X, y = LINEAR_BY_NAME["ridge"].data(7, 3)
    run = icgd.compile(icgd.Ridge(3, 0.1), icgd.GD(0.1)).run(X, y, steps=50)
    assert run.cost.live_blocks_max == 1
    assert (run.cost.rounds, run.cost.blocks) == (50, 50)


def test_a_trace_holds_every_block_with_its_examples() -> None:
    X, y = LINEAR_BY_NAME["ridge"].data(4, 2)
    run = icgd.compile(icgd.Ridge(2, 0.1), icgd.GD(0.1)).run(X, y, steps=3, record="trace")
    assert len(run.trace) == 3
    for entry in run.trace:
        assert torch.equal(entry.block.value("x"), X)
        assert torch.equal(entry.block.value("y"), y)
    assert torch.equal(run.trace[-1].block.value("weight"), run.weights)


def test_a_warm_start_continues_where_it_stopped() -> None:
    X, y = LINEAR_BY_NAME["lasso_bias"].data(8, 3)
    program = icgd.compile(icgd.Lasso(3, 0.05, intercept=True), icgd.GD(0.1))
    whole = program.run(X, y, steps=20)
    half = program.run(X, y, steps=10)
    rest = program.run(X, y, steps=10, init=half.weights)
    assert torch.equal(whole.weights, rest.weights)


@pytest.mark.parametrize("name", ["ridge", "logistic_bias", "poisson"])
def test_float32_follows_float64(name: str) -> None:
    case = LINEAR_BY_NAME[name]
    problem, (X, y) = case.make(3), case.data(20, 3)
    single = icgd.compile(problem, icgd.GD(case.lr), dtype=torch.float32).run(X, y, steps=50)
    exact = case.exact_gd(problem, X, y, 50)[-1]
    assert single.weights.dtype == torch.float32
    assert float((single.weights.double() - exact).abs().max()) <= 2e-5


@pytest.mark.parametrize("name", ["ridge", "logistic_bias", "lasso", "user_link", "huber", "joint"])
def test_save_and_load_are_bit_identical(name: str, tmp_path) -> None:
    case = LINEAR_BY_NAME[name]
    X, y = case.data(6, 2)
    program = icgd.compile(case.make(2), icgd.GD(case.lr), **case.options)
    program.save_pretrained(tmp_path / "program")
    again = icgd.Program.from_pretrained(tmp_path / "program")
    assert torch.equal(program.run(X, y, steps=5).weights, again.run(X, y, steps=5).weights)
    assert torch.equal(program.run(X, y, steps=5).predict(X), again.run(X, y, steps=5).predict(X))


def test_auto_step_is_one_over_the_smoothness_of_the_radii() -> None:
    program = icgd.compile(icgd.Ridge(3, 0.1, x_radius=2.0), icgd.GD())
    assert program.config["optimizer"]["lr"] == 1 / (2.0**2 + 0.1)
    poisson = icgd.GLM(2, "poisson", x_radius=1.0, w_radius=2.0)
    assert icgd.compile(poisson, icgd.GD()).config["optimizer"]["lr"] == math.exp(-2.0)


def test_an_altered_program_runs_its_altered_weights() -> None:
    """The literal matrices are the judge of what a changed weight does."""
    X, y = LINEAR_BY_NAME["logistic_bias"].data(5, 3)
    program = icgd.compile(icgd.GLM(3, "logistic", 0.1, intercept=True), icgd.GD(0.2))
    plain = program.run(X, y, steps=3).weights
    for name, value in program.state_dict().items():
        if name.startswith("readout"):
            continue
        altered = copy.deepcopy(program)
        altered.codec._like = [altered.step.attention.like]  # type: ignore[attr-defined]
        weight = dict(altered.named_parameters())[name]
        weight.data.reshape(-1)[0] = 1.01 * weight.data.reshape(-1)[0] + 0.01
        fast = altered.run(X, y, steps=3, watch=False).weights
        slow = altered.run(X, y, steps=3, watch=False, executor="dense").weights
        assert float((fast - slow).abs().max()) <= 1e-12, name
        if value.numel() > 2:  # a table's unused corner may change nothing
            continue
        assert float((fast - plain).abs().max()) > 1e-9 or "offset" in name, name


@pytest.mark.parametrize("kind", ["ridge", "lasso", "logistic"])
def test_a_thousand_steps_on_real_data_are_exact_to_1e_12(kind: str) -> None:
    """569 rows, 30 features, against a loop written here, at every step."""
    X, labels = load_breast_cancer(return_X_y=True)
    X = torch.as_tensor((X - X.mean(0)) / X.std(0))
    y = torch.as_tensor(labels, dtype=torch.float64)
    y = y if kind == "logistic" else (y - y.mean()) / y.std()
    lam, n = 0.01, len(y)
    made = {"ridge": icgd.Ridge(30, lam), "lasso": icgd.Lasso(30, lam)}
    problem = made.get(kind, icgd.GLM(30, "logistic", lam))
    lr = 1 / problem.constants_on(X, 1.0)[1]
    run = icgd.compile(problem, icgd.GD(lr)).run(X, y, steps=1000, record="weights")
    assert run.history is not None
    w, worst = torch.zeros(30, dtype=torch.float64), 0.0
    for ours in run.history:
        s = X @ w
        grad = X.T @ ((torch.sigmoid(s) if kind == "logistic" else s) - y) / n
        if kind == "lasso":
            moved = w - lr * grad
            w = torch.sign(moved) * (moved.abs() - lr * lam).relu()
        else:
            w = w - lr * (grad + lam * w)
        worst = max(worst, float((ours - w).abs().max()))
    assert worst <= 1e-12


def test_a_run_that_diverges_to_nan_is_an_error() -> None:
    X, y = LINEAR_BY_NAME["logistic"].data(10, 3)
    program = icgd.compile(icgd.GLM(3, "logistic", 1.0), icgd.GD(3.0))
    with pytest.raises(icgd.AssumptionViolated, match="Training diverged"):
        program.run(X, y, steps=3000)


def test_a_batch_of_one_stays_a_batch() -> None:
    X, y = LINEAR_BY_NAME["ridge"].data(5, 3)
    run = icgd.compile(icgd.Ridge(3, 0.1), icgd.GD(0.1)).run(X[None], y[None], steps=3)
    assert run.predict(X[None]).shape == (1, 5)
    assert run.predict(X).shape == (1, 5)
