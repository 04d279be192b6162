"""What is measured is what it is called: compiled programs, baselines and errors against other ways to them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score

from icgd.lab.baselines import GradientDescent, NewtonIterations
from icgd.lab.experiments.measures import evaluation_prompts, predictions
from icgd.lab.models.build import build_model
from icgd.lab.sweeps.cells import Workplace
from icgd.lab.tasks import TaskConfig, build_task
from icgd.lab.tasks.batch import Batch
from icgd.lab.training.config import make_config
from icgd.lab.training.journal import METRICS
from icgd.lab.training.trainer import Trained
from icgd.papers.algo.experiments.algoformers import (
    CHAIN,
    REGRESSION,
    SERIES,
    curve_of,
    end_error,
    errors,
)
from icgd.papers.algo.experiments.compiled import STEP, compiled_iterates
from icgd.papers.deep.appendix_g.networks import (
    BEST,
    LAST,
    LINEAR,
    r2_of_a_model,
    r2_of_baselines,
    with_constant,
)

# -- compiled programs -----------------------------------------------------------------------------------


def prompts(n: int, d: int, d_y: int, n_prompts: int = 3) -> Batch:
    """n examples and a query."""
    generator = torch.Generator().manual_seed(100 * n + 10 * d + d_y)
    xs = torch.randn(n_prompts, n + 1, d, generator=generator, dtype=torch.float64)
    A = torch.randn(n_prompts, d, d_y, generator=generator, dtype=torch.float64)
    noise = torch.randn(n_prompts, n + 1, d_y, generator=generator, dtype=torch.float64)
    return Batch(xs, xs @ A / d**0.5 + 0.1 * noise)


@pytest.mark.parametrize("d_y", [1, 2])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (4, 1), (1, 2), (5, 2), (3, 5), (12, 5)])
@pytest.mark.parametrize("name", ["gradient descent", "Newton"])
def test_a_compiled_program_makes_the_exact_iterates(name, n, d, d_y):
    made, exact = compiled_iterates(name, prompts(n, d, d_y), 4)
    assert made.shape == exact.shape == (4, 3, d_y)
    assert float((made - exact).abs().max()) < 1e-12
    assert float(exact.abs().max()) > 1e-3  # not equal because both are 0
    assert float((exact[1:] - exact[:-1]).abs().max()) > 1e-6  # every step moves


@pytest.mark.parametrize(("n", "d", "d_y"), [(1, 1, 1), (6, 2, 1), (12, 5, 2)])
def test_compiled_gradient_descent_is_the_baseline_with_its_step(n, d, d_y):
    """The baseline works with eigenvalues and on all prefixes: another way to the same numbers."""
    batch = prompts(n, d, d_y)
    made, exact = compiled_iterates("gradient descent", batch, 6)
    baseline = GradientDescent(6, lr=STEP).iterates(batch)[1:, :, -1]
    assert float((made - baseline).abs().max()) < 1e-12
    assert float((exact - baseline).abs().max()) < 1e-12


def test_compiled_newton_goes_where_the_baseline_goes():
    """Their starts differ, the limit does not: least squares."""
    batch = prompts(12, 2, 1)
    made, _ = compiled_iterates("Newton", batch, 30)
    limit = NewtonIterations(60).iterates(batch)[-1, :, -1]
    assert float((made[-1] - limit).abs().max()) < 1e-10
    assert float((made[0] - limit).abs().max()) > 1e-3


# -- baselines of DEEP -----------------------------------------------------------------------------------

D, POINTS = 3, 9
NETWORK = {"name": "network_regression", "n_dims": D, "n_layers": 3, "hidden_layer_size": 6}


@pytest.fixture(scope="module")
def baselines(tmp_path_factory):
    return r2_of_baselines(
        Workplace(tmp_path_factory.mktemp("cell")),
        task=NETWORK,
        n_layers=3,
        width=6,
        seed=0,
        n_points=POINTS,
        n_prompts=70,
        lengths=[2, 5, 8],
    )


def test_least_squares_has_the_r2_of_scikit_learn(baselines):
    """Where there are more examples than unknowns, fitted prompt by prompt and pooled."""
    task = build_task(TaskConfig.model_validate(NETWORK))
    batches = evaluation_prompts(task, POINTS, 70, 0)
    xs, ys = (torch.cat([getattr(b, f) for b in batches]).double().numpy() for f in ("xs", "ys"))
    for at in (5, 8):
        fits = [LinearRegression().fit(x[:at], y[:at]) for x, y in zip(xs, ys, strict=True)]
        made = [fit.predict(x[at : at + 1])[0, 0] for fit, x in zip(fits, xs, strict=True)]
        found = baselines["r2"][LINEAR][baselines["lengths"].index(at)]
        assert found == pytest.approx(r2_score(ys[:, at, 0], made), abs=1e-5)


def test_the_best_epoch_is_never_behind_the_last(baselines):
    assert baselines["lengths"] == [2, 5, 8]
    for best, last in zip(baselines["r2"][BEST], baselines["r2"][LAST], strict=True):
        assert last <= best < 1
    assert baselines["r2"][BEST] != baselines["r2"][LAST]


def test_a_constant_is_added_to_the_inputs():
    made = with_constant(prompts(4, 2, 1))
    assert made.shape == (3, 5, 3)
    assert torch.equal(made[..., :2], prompts(4, 2, 1).xs)
    assert bool((made[..., 2] == 1).all())


# -- models ----------------------------------------------------------------------------------------------


def a_model(directory: Path, kind: str, task: dict, n_points: int, layout: str, **more) -> Trained:
    """A model as it is drawn, which is as good as any other to measure."""
    config = make_config(
        {
            "model": {
                "kind": kind,
                "n_layer": 1,
                "n_head": 2,
                "n_embd": 8,
                "n_positions": n_points + 2,
                "layout": layout,
                "init_std": 0.5,
                **more,
            },
            "task": {"n_dims": 2, **task},
            "training": {"n_points": n_points},
        }
    )
    made = build_task(config.task)
    generator = torch.Generator().manual_seed(0)
    model = build_model(config.model, made.d_x, made.d_y, generator=generator)
    (directory / METRICS).write_text(
        '{"step": 4, "loss": 1.0, "lr": 1.0, "steps_per_second": 2.0}\n'
    )
    return Trained(model, config, directory, 4, 1.0)


TASKS = {
    REGRESSION: ({"name": REGRESSION}, 5, "interleaved"),
    SERIES: ({"name": SERIES}, 7, "series"),
    CHAIN: ({"name": CHAIN, "n_layers": 2}, 8, "series"),
}
every_task = pytest.mark.parametrize("name", list(TASKS))


@every_task
@pytest.mark.parametrize("kind", ["looped", "algoformer"])
def test_errors_after_the_trained_loops_are_the_loss_of_their_last_iterate(tmp_path, name, kind):
    """With dT = 0 the loss counts the last iterate alone: the mean of the errors at counted positions."""
    trained = a_model(tmp_path, kind, *TASKS[name], loops=3, window=0)
    row = errors(trained, n_prompts=64, loops=[1, 3])
    (batch,) = evaluation_prompts(build_task(trained.config.task), TASKS[name][1], 64, 0)
    with torch.no_grad():
        loss = float(trained.model.loss(batch))
        apart = trained.model(batch.xs, batch.ys, batch.kind, 1) - batch.ys
    curve = curve_of(row, 3)
    assert sum(curve) / len(curve) == pytest.approx(loss, rel=1e-5)
    by_hand = [float((apart[:, i] ** 2).mean()) for i in range(batch.n_points)]
    assert row["error"]["1"] == pytest.approx(by_hand, rel=1e-5)
    assert row["error"]["1"] != pytest.approx(row["error"]["3"], rel=1e-3)
    assert row["parameters"] == sum(p.numel() for p in trained.model.parameters())
    assert (row["training_seconds"], row["train_loss"]) == (2.0, 1.0)


@every_task
def test_positions_that_nothing_predicts_are_not_counted(tmp_path, name):
    row = errors(a_model(tmp_path, "standard", *TASKS[name]), n_prompts=4, loops=[1])
    counted = {
        REGRESSION: [True] * 5,
        # Three entries start the series: the first that follows from others comes after the third.
        SERIES: [False, False, True, True, True, True, True],
        # x s s | x s s | x s s: after a chain's last state comes a new x.
        CHAIN: [True, True, False, True, True, False, True, True],
    }
    assert row["counted"] == counted[name]
    assert len(curve_of(row)) == sum(counted[name])


def test_the_end_of_a_prompt_are_its_last_counted_positions():
    row = {"error": {"2": [1.0, 2.0, 3.0, 4.0, 9.0, 5.0]}, "counted": [True] * 4 + [False, True]}
    assert curve_of(row) == curve_of(row, 2) == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert end_error(row) == pytest.approx((3 + 4 + 5) / 3)


def test_a_model_is_measured_on_the_changed_task_and_beyond_its_trained_length(tmp_path):
    trained = a_model(tmp_path, "standard", NETWORK, 5, "interleaved")
    tests = {"same": {}, "shifted": {"weights": {"kind": "gaussian", "mean": 0.5}}}
    row = r2_of_a_model(trained, tests=tests, n_points=7, n_prompts=70)
    assert row["trained_points"] == 5
    for name, change in tests.items():
        task = build_task(TaskConfig.model_validate({**NETWORK, **change}))
        batches = evaluation_prompts(task, 7, 70, 0)
        made = predictions(trained.model, batches)
        targets = torch.cat([b.ys for b in batches])
        found = [r2_score(targets[:, i, 0].double(), made[:, i, 0].double()) for i in range(7)]
        assert row["r2"][name] == pytest.approx(found, abs=1e-6)
    assert row["r2"]["same"] != row["r2"]["shifted"]
