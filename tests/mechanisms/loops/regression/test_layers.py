"""Looped regression with a representation against gradient descent written out.

Labels are A phi(x) with A ~ N(0, 1), of size sqrt(d); errors are proportional to them, because the loop is
linear in y. Bars are absolute for predictions and per unit of A for residuals, where a token meets itself.
"""

from __future__ import annotations

import math
import warnings

import pytest
import torch

import icgd
from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.mechanisms.loops.regression.layers import LoopOptions
from icgd.transformer.blocks import pack_block
from icgd.transformer.gadgets.heads.bilinear import BilinearOptions, bilinear_certificate
from icgd.transformer.gadgets.heads.product_theory import linearised
from icgd.transformer.nn.stack.stack import unwatched

F64 = torch.float64
MODES = ["spectral", "sym", "four", "printed"]
EXECUTORS = ["structured", "sparse", "dense"]
SIZES = [(5, 20), (20, 40)]
STEPS = (1, 20, 50, 200)
BARS = {
    "spectral": (1e-12, 1e-12, 1e-12, 1e-12),
    "sym": (1e-9, 5e-9, 2e-8, 5e-8),
    "four": (1e-10, 1e-10, 1e-10, 5e-10),
    "printed": (5e-7, 5e-6, 5e-6, 1e-5),
}
"""Largest error of a prediction after these steps."""
SLOPE = 0.1


class Case:
    """A problem, data and the exact algorithm, in plain torch."""

    def __init__(self, d, n, k=1, *, layers=2, seed=0, lam=0.0, batch=(), queries=1):
        g = torch.Generator().manual_seed(seed)

        def normal(*shape):
            return torch.randn(*shape, generator=g, dtype=F64)

        self.layers = [((2 / d) ** 0.5 * normal(d, d), 0.1 * normal(d)) for _ in range(layers)]
        self.X, self.query = normal(*batch, n, d), normal(*batch, queries, d)
        self.phi, self.asked = self.represent(self.X), self.represent(self.query)
        self.Y = self.phi @ normal(*batch, d, k)
        self.n, self.lam = n, lam
        radius = 1.01 * float(torch.cat([self.phi, self.asked], dim=-2).norm(dim=-1).max())
        self.problem = icgd.RepresentationRegression(
            d, n, k, representation=self.layers, slope=SLOPE, lam=lam, x_radius=radius
        )
        top = torch.linalg.matrix_norm(self.phi.mT @ self.phi / n, ord=2)
        self.lr = 1 / (float(top.max()) + lam)
        self.path: list[torch.Tensor] = []

    def represent(self, x):
        for W, b in self.layers:
            z = x @ W.T + b
            x = torch.where(z >= 0, z, SLOPE * z)
        return x

    def program(self, mode="spectral", lr=None, **options):
        return icgd.compile(self.problem, icgd.GD(lr or self.lr), mode=mode, **options)

    def descent(self, steps, lr=None):
        """A_1 .. A_T, (..., k, d); with the usual step size every step is done once."""
        path = self.path if lr is None else []
        A = torch.zeros(*self.X.shape[:-2], self.Y.shape[-1], self.phi.shape[-1], dtype=F64)
        A = path[-1] if path else A
        for _ in range(len(path), steps):
            gap = self.phi @ A.mT - self.Y
            A = A - (lr or self.lr) * (gap.mT @ self.phi / self.n + self.lam * A)
            path.append(A)
        return path[:steps]

    def run(self, program, steps, **more):
        return program.run(self.X, self.Y, steps=steps, query=self.query, **more)

    def error(self, run, steps):
        """Of the prediction; with a trace also of all residuals."""
        worst = self.prediction_error(run, steps)
        return max(worst, self.residual_error(run, steps)) if run.trace else worst

    def prediction_error(self, run, steps):
        exact = self.asked @ self.descent(steps)[-1].mT
        assert run.prediction.shape == exact.shape
        return float((run.prediction - exact).abs().max())

    def errors_on_the_way(self, program):
        """{steps: error of the prediction} for all of STEPS, from one traced run, and the run.

        The read-out copies the residual of the query as it stands after a step
        (test_the_prediction_on_the_way_is_that_of_a_shorter_run).
        """
        run = self.run(program, STEPS[-1], record="trace")
        errors = {}
        for steps in STEPS[:-1]:
            inside = run.trace[steps - 1].block.value("r")[..., 2 * self.n :: 2, :]
            exact = self.asked @ self.descent(steps)[-1].mT
            assert inside.shape == exact.shape
            errors[steps] = float((inside - exact).abs().max())
        return {**errors, STEPS[-1]: self.prediction_error(run, STEPS[-1])}, run

    def residual_error(self, run, steps):
        """Of A phi(x_i) - y_i at the examples, from a trace of as many steps or more."""
        assert len(run.trace) == run.cost.rounds >= steps
        r = run.trace[steps - 1].block.value("r")[..., 0 : 2 * self.n : 2, :]
        exact = self.phi @ self.descent(steps)[-1].mT - self.Y
        return float((r - exact).abs().max())


# -- the bars -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layers", [0, 2])
def test_predictions_are_those_of_gradient_descent(mode, size, seed, layers):
    case = Case(*size, seed=seed, layers=layers)
    program = case.program(mode)
    errors, longest = case.errors_on_the_way(program)
    for steps, bar in zip(STEPS, BARS[mode], strict=True):
        assert errors[steps] <= bar
        assert case.residual_error(longest, steps) <= bar * size[0] ** 0.5


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("size", "layers"), [(SIZES[0], 2), (SIZES[1], 0)])
def test_the_prediction_on_the_way_is_that_of_a_shorter_run(mode, size, layers):
    """What a long run has written after a step is what a run that ends there reads out."""
    case = Case(*size, layers=layers, lam=0.01)
    program = case.program(mode)
    longest = case.run(program, STEPS[-1], record="trace")
    runs = [*(case.run(program, steps) for steps in STEPS[:-1]), longest]
    for steps, bar, run in zip(STEPS, BARS[mode], runs, strict=True):
        inside = longest.trace[steps - 1].block.value("r")[2 * case.n :: 2]
        assert float((run.prediction - inside).abs().max()) <= 1e-14
        assert case.prediction_error(run, steps) <= bar


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mode", MODES)
def test_the_usual_radius_keeps_the_bars(mode, size, seed):
    """A radius that leaves room costs digits in the linear range, and they are there."""
    case = Case(*size, seed=seed, layers=0)
    case.problem = icgd.LinearRegression(*size)
    errors, _ = case.errors_on_the_way(case.program(mode))
    for steps, bar in zip(STEPS, BARS[mode], strict=True):
        assert errors[steps] <= bar


@pytest.mark.parametrize("mode", ["sym", "four", "printed"])
def test_heads_are_scaled_for_half_of_the_bound(mode):
    """Watched and certified for all of it; a scale that is given is kept."""
    bound = 1.5
    options = LoopOptions(0.1, bound, BilinearOptions(mode))
    assert options.scaled.c == linearised(mode, bound / 2, C=31.9).c
    assert options.certificate(12) == bilinear_certificate(options.scaled, bound, 12)
    given = LoopOptions(0.1, bound, BilinearOptions(mode, c=1e-3))
    assert given.scaled.c == 1e-3


def test_the_loop_moves_the_prediction():
    """A comparison of runs in which nothing happens would compare zeros."""
    for size in SIZES:
        case = Case(*size)
        first, last = (case.asked @ case.descent(t)[-1].mT for t in (1, 200))
        assert float((first - last).abs().max()) > 1e-2
        assert float(first.abs().max()) > 1e-3


@pytest.mark.parametrize("size", SIZES)
def test_two_signs_beat_the_printed_heads(size):
    case = Case(*size)
    errors = [
        case.error(case.run(case.program(mode), 1, record="trace"), 1)
        for mode in ("printed", "sym")
    ]
    assert errors[0] >= 50 * errors[1]


@pytest.mark.parametrize(
    ("mode", "order", "scales", "room"),
    [
        ("printed", 1, (1e-2, 1e-3, 1e-4, 1e-5), 0.1),
        ("sym", 2, (1e-1, 1e-2, 1e-3), 0.1),
        ("four", 4, (3e-1, 1e-1, 3e-2, 1e-2), 0.3),
    ],
)
@pytest.mark.parametrize("size", SIZES)
def test_the_error_in_c_has_the_order_of_the_mode(mode, order, scales, room, size):
    case = Case(*size)
    errors = [
        case.error(case.run(case.program(mode, scale=c), 1, record="trace"), 1) for c in scales
    ]
    for i in range(len(scales) - 1):
        slope = math.log(errors[i] / errors[i + 1]) / math.log(scales[i] / scales[i + 1])
        assert abs(slope - order) <= room


def test_rounding_takes_over_where_c_is_too_small():
    """'Arbitrarily close' as c goes to 0 is a statement about real numbers."""
    case = Case(5, 20)
    errors = [
        case.error(case.run(case.program("printed", scale=c), 1), 1) for c in (1e-2, 1e-5, 1e-13)
    ]
    assert errors[1] < errors[0] < errors[2]
    assert errors[2] > 1e-3


@pytest.mark.parametrize("sink", [10.0, 15.9])
def test_a_sink_that_is_too_small_shows(sink):
    case = Case(20, 40)
    assert case.error(case.run(case.program("sym", sink=sink), 1), 1) > 1e-7
    assert case.error(case.run(case.program("sym"), 1), 1) < 1e-9


def test_well_conditioned_data_are_fitted():
    """With enough steps the answer is the truth itself, not only that of descent."""
    case = Case(3, 60, layers=0, seed=1)
    A = torch.linalg.lstsq(case.phi, case.Y).solution
    run = case.run(case.program(), 300)
    assert float((run.prediction - case.asked @ A).abs().max()) <= 1e-12
    assert float((run.weights - A[:, 0]).abs().max()) <= 1e-12


# -- parts ----------------------------------------------------------------------------------------


def entered(case, program):
    """Slots of the prompt as the loop finds them."""
    session = program.codec.session(case.X, case.Y, steps=1, query=case.query)
    (block,) = session.prompt.values()
    tokens = pack_block(block, program.layout, session.n_columns, program.step.like)
    return program.layout.unpack(program.entry(tokens, "dense", unwatched))


@pytest.mark.parametrize("layers", [0, 1, 3])
@pytest.mark.parametrize("size", [(1, 1), (5, 20), (4, 33)])
def test_the_entry_layers_are_exact(size, layers):
    case = Case(*size, 2, layers=layers, seed=3)
    slots, n = entered(case, case.program()), size[1]
    train, test = slice(0, 2 * n, 2), 2 * n
    assert float((slots["h"][train] - case.phi).abs().max()) <= 1e-13
    assert float((slots["h"][test] - case.asked[0]).abs().max()) <= 1e-13
    assert float((slots["k"][train] - case.phi / n).abs().max()) <= 1e-13
    assert float((slots["r"][train] + case.Y).abs().max()) <= 1e-13
    for slot in ("h", "k", "r"):
        assert not slots[slot][1::2].any()
    assert not slots["k"][test].any()
    assert not slots["r"][test].any()


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("mode", MODES)
def test_y_tokens_stay_exactly_zero(mode, executor):
    case = Case(5, 20)
    run = case.run(case.program(mode), 25, executor=executor, record="trace")
    for entry in run.trace:
        r = entry.block.value("r")
        assert not r[1::2].any()
        assert r[0::2].any()


@pytest.mark.parametrize("mode", MODES)
def test_the_readout_adds_no_error(mode):
    case = Case(5, 20)
    run = case.run(case.program(mode), 20, record="trace")
    inside = run.trace[-1].block.value("r")[2 * case.n]
    assert float((run.prediction[0] - inside).abs().max()) <= 1e-14


@pytest.mark.parametrize("lam", [0.0, 0.1])
def test_layers_and_heads(lam):
    """Theorem 3.1: L + 1, one and one layers. Entry: one head where it says two; two with a penalty."""
    for layers in (0, 1, 3):
        case = Case(4, 6, layers=layers, lam=lam)
        for mode, heads in (("sym", 2), ("printed", 2), ("four", 4)):
            program = case.program(mode)
            parts = (program.entry, program.step, program.readout)
            assert [p.n_layers for p in parts] == [layers + 1, 1, 1]
            most = [max(c.heads for c in p.counts()) for p in parts]
            assert most == [2 if lam else 1, heads, 1]
            # Attention stands before the feed-forward part of its layer, and layers for phi have none.
            kinds = [c.kind for c in program.entry.counts()]
            assert kinds == ["mlp"] * layers + ["attention", "mlp"]


def test_weights_do_not_depend_on_data():
    """They are there before any prompt is."""
    case = Case(4, 6)
    for mode in MODES:
        program = case.program(mode)
        before = {name: p.clone() for name, p in program.named_parameters()}
        case.run(program, 3)
        for name, p in program.named_parameters():
            assert torch.equal(p, before[name])
            assert not p.requires_grad


# -- variants -------------------------------------------------------------------------------------


@pytest.mark.parametrize("lam", [0.01, 0.3])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mode", MODES)
def test_ridge(mode, size, lam):
    case = Case(*size, lam=lam)
    errors, _ = case.errors_on_the_way(case.program(mode))
    for steps, bar in zip(STEPS, BARS[mode], strict=True):
        assert errors[steps] <= bar


def test_ridge_reaches_the_minimiser():
    case = Case(5, 20, lam=0.2)
    S = case.phi.T @ case.phi / case.n + 0.2 * torch.eye(5, dtype=F64)
    best = torch.linalg.solve(S, case.phi.T @ case.Y / case.n)
    run = case.run(case.program(), 400)
    assert float((run.weights - best[:, 0]).abs().max()) <= 1e-12


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("k", [2, 7])
def test_several_outputs(mode, k):
    case = Case(5, 20, k)
    run = case.run(case.program(mode), 20)
    assert run.prediction.shape == (1, k)
    assert run.weights.shape == (k, 5)
    assert case.error(run, 20) <= BARS[mode][1]


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("mode", MODES)
def test_batches(mode, executor):
    case = Case(4, 9, 2, batch=(3,))
    run = case.run(case.program(mode), 20, executor=executor)
    assert run.prediction.shape == (3, 1, 2)
    assert run.weights.shape == (3, 2, 4)
    assert case.error(run, 20) <= 10 * BARS[mode][1]


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("k", [1, 2])
def test_several_queries(batch, k):
    case = Case(4, 9, k, batch=batch, queries=5)
    run = case.run(case.program(), 20, record="weights")
    assert run.prediction.shape == (*batch, 5, k)
    assert case.error(run, 20) <= 1e-13
    path = case.descent(20)
    for ours, exact in zip(run.history, path, strict=True):
        exact = exact[..., 0, :] if k == 1 else exact
        assert ours.shape == exact.shape
        assert float((ours - exact).abs().max()) <= 1e-12


@pytest.mark.parametrize("size", [(1, 1), (1, 6), (6, 2), (2, 1)])
@pytest.mark.parametrize("mode", MODES)
def test_small_and_underdetermined_problems(mode, size):
    case = Case(*size, layers=1, seed=2)
    assert case.error(case.run(case.program(mode), 20), 20) <= 5 * BARS[mode][1]


def test_without_a_query_there_is_no_prediction():
    case = Case(4, 9)
    run = case.program().run(case.X, case.Y, steps=20)
    assert run.prediction is None
    assert float((run.weights - case.descent(20)[-1][0]).abs().max()) <= 1e-12


def test_layers_of_different_widths():
    g = torch.Generator().manual_seed(0)
    shapes = [(7, 3), (2, 7), (4, 2)]
    layers = [torch.randn(*shape, generator=g, dtype=F64) / 2 for shape in shapes]
    problem = icgd.RepresentationRegression(3, 8, representation=layers, slope=0.2)
    X, query = (torch.randn(n, 3, generator=g, dtype=F64) for n in (8, 1))

    def phi(x):
        for W in layers:
            x = torch.nn.functional.leaky_relu(x @ W.T, 0.2)
        return x

    y = torch.randn(8, generator=g, dtype=F64)
    A = torch.zeros(4, dtype=F64)
    for _ in range(15):
        A = A - 0.1 * phi(X).T @ (phi(X) @ A - y) / 8
    for executor in EXECUTORS:
        run = icgd.compile(problem, icgd.GD(0.1)).run(
            X, y, steps=15, query=query, executor=executor
        )
        assert float((run.prediction - phi(query) @ A).abs().max()) <= 1e-13
        # A is known on the span of the representations only.
        assert float((phi(X) @ (run.weights - A)).abs().max()) <= 1e-12


@pytest.mark.parametrize("mode", MODES)
def test_the_run_is_linear_in_y(mode):
    case = Case(5, 20)
    one, two = (
        case.program(mode).run(case.X, f * case.Y, steps=7, query=case.query).prediction
        for f in (1.0, 2.0)
    )
    assert torch.equal(2 * one, two)


def test_plain_linear_regression_is_the_case_without_layers():
    case = Case(5, 20, layers=0)
    plain = icgd.LinearRegression(5, 20, x_radius=case.problem.radius)
    run = icgd.compile(plain, icgd.GD(case.lr)).run(
        case.X, case.Y[:, 0], steps=200, query=case.query
    )
    assert case.error(run, 200) <= 1e-12


@pytest.mark.parametrize("mode", MODES)
def test_executors_agree(mode):
    """To rounding; the linearised heads magnify it by 1/c, which their certificate covers."""
    case = Case(5, 20, 2, lam=0.05)
    program = case.program(mode)
    runs = [case.run(program, 30, executor=e) for e in (*EXECUTORS, "collapsed")]
    room = 1e-12 if mode == "spectral" else 30 * program.certificate.sup_error
    for run in runs[1:]:
        assert float((run.prediction - runs[0].prediction).abs().max()) <= room


FLOAT32 = {"spectral": 1e-4, "sym": 2e-3, "four": 1e-3, "printed": 5e-2}


@pytest.mark.parametrize("mode", MODES)
def test_float32_is_as_good_as_it_can_be(mode):
    """Measured, and worse than float64 by what the error law says; not meant for use."""
    case = Case(5, 20)
    program = case.program(mode, dtype=torch.float32)
    run = program.run(case.X.float(), case.Y.float(), steps=1, query=case.query.float())
    error = float((run.prediction.double() - case.asked @ case.descent(1)[-1].T).abs().max())
    assert error <= FLOAT32[mode]
    assert error <= program.certificate.sup_error * float(case.Y.abs().sum()) * case.lr + 1e-5


def test_the_automatic_step_size_is_stable_within_the_radius():
    case = Case(5, 20)
    program = icgd.compile(case.problem, icgd.GD())
    lr = program.config["optimizer"]["lr"]
    assert lr == 1 / case.problem.radius**2
    exact = case.asked @ case.descent(20, lr)[-1].T
    assert float((case.run(program, 20).prediction - exact).abs().max()) <= 1e-12


@pytest.mark.parametrize("mode", MODES)
def test_save_and_load(tmp_path, mode):
    case = Case(4, 9, 2, lam=0.1)
    program = case.program(mode)
    program.save_pretrained(tmp_path)
    again = icgd.Program.from_pretrained(tmp_path)
    for executor in EXECUTORS:
        ours, theirs = (case.run(p, 9, executor=executor) for p in (program, again))
        assert torch.equal(ours.prediction, theirs.prediction)
        assert torch.equal(ours.weights, theirs.weights)


# -- what cannot be -------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["sym", "four", "printed", "spectral"])
def test_data_outside_the_radius_are_refused_by_name(mode):
    case = Case(4, 9)
    room = 4.0 if mode == "spectral" else 1.0
    problem = icgd.RepresentationRegression(
        4, 9, representation=case.layers, slope=SLOPE, x_radius=0.98 * case.problem.radius / room
    )
    program = icgd.compile(problem, icgd.GD(case.lr), mode=mode)
    with pytest.raises(AssumptionViolated, match=r"phi\(x\).*reaches.*x_radius=") as caught:
        case.run(program, 3)
    # Following the advice helps.
    advised = float(str(caught.value).split("x_radius=")[1].split()[0])
    wider = icgd.RepresentationRegression(
        4, 9, representation=case.layers, slope=SLOPE, x_radius=advised
    )
    case.run(icgd.compile(wider, icgd.GD(case.lr), mode=mode), 3)


def test_a_query_outside_the_radius_is_refused_too():
    problem = icgd.LinearRegression(2, 3, x_radius=1.0)
    program = icgd.compile(problem, icgd.GD(0.5), mode="sym")
    X, y = torch.full((3, 2), 0.5, dtype=F64), torch.ones(3, dtype=F64)
    program.run(X, y, steps=1, query=X[:1])
    with pytest.raises(AssumptionViolated, match=r"\|x\| reaches 1.41421.*x_radius"):
        program.run(X, y, steps=1, query=torch.ones(1, 2, dtype=F64))


def test_a_radius_that_is_just_enough_is_enough():
    """All products stay within what the heads are certified for."""
    case = Case(4, 9)
    for mode in MODES:
        assert 0 < case.run(case.program(mode), 3).range_use <= 1.0


def test_too_large_a_step_warns_and_does_what_descent_does():
    case = Case(4, 9)
    lr = 2.1 * case.lr
    program = case.program(lr=lr)
    with pytest.warns(UserWarning, match=r"lr \* lambda_max = 2.1.*does not converge"):
        run = case.run(program, 60)
    exact = case.asked @ case.descent(60, lr)[-1].T
    assert float((run.prediction / exact - 1).abs().max()) <= 1e-10
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        case.run(case.program(lr=1.9 * case.lr), 60)


def test_an_overflow_is_an_error():
    case = Case(4, 9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(AssumptionViolated, match=r"overflow|diverged"):
            case.run(case.program(lr=1e3), 200)


@pytest.mark.parametrize(
    ("problem", "optimizer", "options", "match"),
    [
        ({}, icgd.SGD(0.1), {}, "optimizer"),
        ({}, icgd.GD(0.1, box=1.0), {}, "optimizer"),
        ({}, icgd.GD(0.1), {"mode": "exact"}, "mode"),
        ({}, icgd.GD(0.1), {"method": "stack"}, "method"),
        ({}, icgd.GD(0.1), {"n_relu": 3}, "n_relu"),
        ({"lam": 2.0}, icgd.GD(0.5), {}, "lr"),
    ],
)
def test_what_cannot_be_compiled_says_why(problem, optimizer, options, match):
    with pytest.raises(InvalidParameter, match=match):
        icgd.compile(icgd.RepresentationRegression(3, 5, **problem), optimizer, **options)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"n_features": 0}, "n_features"),
        ({"n_examples": 2.5}, "n_examples"),
        ({"n_outputs": True}, "n_outputs"),
        ({"slope": 0.0}, "slope"),
        ({"slope": -0.1}, "slope"),
        ({"lam": -1.0}, "lam"),
        ({"x_radius": 0.0}, "x_radius"),
        ({"representation": [torch.eye(4)]}, r"representation\[0\]"),
        ({"representation": [torch.eye(3), torch.eye(3)[:, :2]]}, r"representation\[1\]"),
        ({"representation": [torch.full((3, 3), math.nan)]}, "finite"),
    ],
)
def test_problems_that_make_no_sense(given, match):
    with pytest.raises(InvalidParameter, match=match):
        icgd.RepresentationRegression(**{"n_features": 3, "n_examples": 5, **given})


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"X": torch.zeros(4, 3)}, "`X` must have shape"),
        ({"X": torch.zeros(5, 2)}, "`X` must have shape"),
        ({"y": torch.zeros(4)}, "`y` must have shape"),
        ({"y": torch.zeros(5, 2)}, "`y` must have shape"),
        ({"query": torch.zeros(2, 4)}, "`query` must have shape"),
        ({"query": torch.zeros(0, 3)}, "`query` must have shape"),
        ({"init": torch.zeros(3)}, "`init`"),
        ({"epochs": 2}, "`epochs`"),
        ({"steps": 0}, "`steps`"),
        ({"steps": None}, "`steps`"),
        ({"executor": "fast"}, "`executor`"),
        ({"X": torch.full((5, 3), math.inf)}, "`X` must be finite"),
    ],
)
def test_wrong_arguments(change, match):
    given = {"X": torch.zeros(5, 3), "y": torch.zeros(5), "steps": 2, **change}
    program = icgd.compile(icgd.LinearRegression(3, 5), icgd.GD(0.1))
    with pytest.raises(InvalidParameter, match=match):
        program.run(given.pop("X"), given.pop("y"), **given)


def test_predictions_need_the_prompt():
    case = Case(4, 9)
    run = case.run(case.program(), 3)
    with pytest.raises(InvalidParameter, match="query"):
        run.predict(case.query)
