"""Sizes are refused before memory is taken, and estimates are what compiling really takes."""

import sys

import pytest
import torch
from forked import MB, forked, forked_each

import icgd
from icgd import (
    GD,
    GLM,
    SGD,
    Autoregression,
    LinearRegression,
    MLPChain,
    Network,
    Newton,
)
from icgd import PreconditionedGD as Preconditioned
from icgd.base.construction import each_of
from icgd.base.preflight import memory_limit
from icgd.mechanisms.catalogue import OWN
from icgd.transformer.program import blueprint

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

JOINT = icgd.joint_loss(lambda s, y: s - y, name="joint")
BIG = 10**9
SGD_, GD_ = SGD(0.1), GD(0.1)
FORWARD = {"method": "forward_mode"}


def net(*widths, activation="relu", **more):
    return Network(widths, activation, **more)


def compiling(problem, optimizer, options):
    return lambda: icgd.compile(problem, optimizer, **options)


TOO_LARGE = {
    "wide": (net(5000, 5000, 1), SGD_, {}, "widths"),
    "very wide": (net(BIG, 1), SGD_, {}, "widths"),
    "grid": (net(2, 3, 1), SGD_, {"n_grid": BIG}, "n_grid"),
    "hard grid": (net(2, 3, 1), SGD_, {"n_grid": BIG, "temperature": "hard"}, "n_grid"),
    "wide float32": (net(5000, 5000, 1), SGD_, {"dtype": torch.float32}, "widths"),
    "wide stack": (net(5000, 5000, 1), GD_, {}, "widths"),
    "deep stack": (net(*[1] * 200_000), GD_, {}, "widths"),
    "many outputs": (net(2, 10**6, activation="tanh", loss="logistic"), GD_, {}, "widths"),
    "units": (net(2, 3, 1, activation="tanh"), GD_, {"n_relu": BIG}, "n_relu"),
    "units that take long": (net(2, 3, 1, activation="tanh"), GD_, {"n_relu": 10**5}, "n_relu"),
    "units of products": (
        net(2, 300, 1, activation="tanh"),
        GD_,
        {"n_relu": 30_000, "products": "attention"},
        "n_relu",
    ),
    "units of a loss": (net(2, 3, 1, loss="logistic"), GD_, {"n_relu": BIG}, "n_relu"),
    "boxed": (net(3000, 3000, 1), GD(0.1, box=1.0), {}, "widths"),
    "forward": (net(400, 400, 400, 1), GD_, FORWARD, "widths"),
    "forward two layers": (net(500, 500, 500), GD_, FORWARD, "widths"),
    "forward units": (
        net(2, 3, 1, activation="softplus"),
        GD_,
        {**FORWARD, "n_relu": BIG},
        "n_relu",
    ),
    "forward relu heads": (
        net(2, 3, 1, activation="tanh"),
        GD_,
        {**FORWARD, "attention": "relu", "n_relu": BIG},
        "n_relu",
    ),
    "features": (icgd.Lasso(BIG, lam=0.1), GD_, {}, "n_features"),
    "tokens": (icgd.Ridge(3, lam=0.1), GD_, {"n_grid": BIG}, "n_grid"),
    "fitted": (GLM(3, "logistic"), GD_, {"n_grid": 10**5, "native": False}, "n_grid"),
    "huber": (icgd.LinearModel(3, icgd.huber(1.0)), GD_, {"n_grid": 10**4}, "n_grid"),
    "joint": (icgd.LinearModel(3, JOINT), GD_, {"n_grid": 5000}, "n_grid"),
    "joint hard": (
        icgd.LinearModel(3, JOINT),
        GD_,
        {"n_grid": 10**4, "temperature": "hard"},
        "n_grid",
    ),
    "loop features": (LinearRegression(10**4, 10), GD_, {}, "n_features"),
    "loop examples": (LinearRegression(3, BIG), GD_, {}, "n_examples"),
    "loop examples sym": (LinearRegression(3, BIG), GD_, {"mode": "sym"}, "n_examples"),
    "loop outputs": (LinearRegression(3, 10, BIG), GD_, {}, "n_outputs"),
    "loop grid": (LinearRegression(3, 10), GD_, {"n_grid": BIG}, "n_grid"),
    "decoder": (LinearRegression(3, BIG), GD_, {"causal": True}, "n_examples"),
    "decoder outputs": (LinearRegression(10, 10, 3000), GD_, {"causal": True}, "n_outputs"),
    "newton": (LinearRegression(10**4, 10), Newton(), {}, "n_features"),
    "newton examples": (LinearRegression(3, BIG), Newton(), {}, "n_examples"),
    "newton steps": (
        LinearRegression(3, 10),
        Preconditioned(newton_steps=10**6),
        {},
        "newton_steps",
    ),
    "newton steps of many features": (
        LinearRegression(300, 10),
        Preconditioned(newton_steps=10**3),
        {},
        "newton_steps",
    ),
    "linear attention": (LinearRegression(10**5, 10), GD_, {"attention": "linear"}, "n_features"),
    "order": (Autoregression(3, 10**5, 10**6), GD_, {}, "order"),
    "series": (Autoregression(3, 2, 10**7), GD_, {}, "n_steps"),
    "series features": (Autoregression(10**5, 2, 10), GD_, {}, "n_features"),
    "chain features": (MLPChain(10**5, 2, 10), GD_, {}, "n_features"),
    "chain layers": (MLPChain(3, 10**5, 10), GD_, {}, "n_layers"),
    "chains": (MLPChain(3, 2, 10**7), GD_, {}, "n_chains"),
}


def load_every_part() -> None:
    for part in ("options", "choose", "schema", "size", "build"):
        assert list(each_of(part))


class TestTooLarge:
    """With half a gigabyte to take and two seconds of CPU."""

    def test_is_refused_with_the_parameter_to_blame(self):
        load_every_part()  # imports made in a child would count as its memory
        works = {case: compiling(*TOO_LARGE[case][:3]) for case in TOO_LARGE}
        for case, got in forked_each(works, memory=500 * MB, cpu=2).items():
            blamed = TOO_LARGE[case][3]
            assert got.error == "TooLarge", (case, got.error, got.message)
            assert f"most of it for `{blamed}` = " in got.message, (case, got.message)
            assert f"Lower `{blamed}`" in got.message, (case, got.message)
            assert "ICGD_MEMORY_LIMIT" in got.message or "ICGD_TIME_LIMIT" in got.message, case
            assert got.peak < 50 * MB, case

    @pytest.mark.parametrize(
        "head", [icgd.SpectralHead, lambda *a, **k: icgd.FunctionHead("tanh", *a, **k)]
    )
    def test_also_a_single_head(self, head):
        got = forked(lambda: head(8.0, n_grid=BIG), memory=500 * MB, cpu=2)
        assert got.error == "TooLarge"

    def test_a_saved_program_is_refused_before_it_is_built(self, tmp_path):
        program = icgd.compile(LinearRegression(3, 10), Preconditioned(newton_steps=2))
        program.save_pretrained(tmp_path)
        path = tmp_path / "config.json"
        path.write_text(path.read_text().replace('"newton_steps": 2', '"newton_steps": 1000000'))
        got = forked(lambda: icgd.Program.from_pretrained(tmp_path), memory=500 * MB, cpu=2)
        assert got.error == "InvalidFile"  # its checksum is another
        altered = lambda: icgd.Program.from_pretrained(tmp_path, allow_altered=True)  # noqa: E731
        got = forked(altered, memory=500 * MB, cpu=2)
        assert got.error == "TooLarge"
        assert "most of it for `newton_steps` = 1000000" in got.message

    def test_the_limit_can_be_lifted(self, monkeypatch):
        large = lambda: icgd.compile(net(300, 1), SGD_)  # noqa: E731
        monkeypatch.setenv("ICGD_MEMORY_LIMIT", "10MB")
        with pytest.raises(icgd.TooLarge, match=r"takes about 27 MB .* and 10 MB are available"):
            large()
        monkeypatch.setenv("ICGD_MEMORY_LIMIT", "none")
        large()


ORDINARY = {
    "network": (net(10, 64, 64, 1), SGD_, {}),
    "stack": (net(10, 64, 64, 1, activation="tanh"), GD_, {}),
    "forward": (net(10, 16, 16, 1, activation="softplus"), GD_, FORWARD),
    "huber": (icgd.LinearModel(30, icgd.huber(1.0)), GD_, {}),
    "joint": (icgd.LinearModel(3, JOINT), GD_, {}),
    "lasso": (icgd.Lasso(10_000, lam=0.1), GD_, {}),
    "regression": (LinearRegression(50, 500), GD_, {}),
    "newton": (LinearRegression(20, 100), Newton(), {}),
    "preconditioned": (LinearRegression(20, 100), Preconditioned(newton_steps=20), {}),
    "decoder": (LinearRegression(20, 100), GD_, {"causal": True}),
    "series": (Autoregression(5, 4, 200), GD_, {}),
    "chain": (MLPChain(10, 5, 30), GD_, {}),
    "linear": (LinearRegression(50, 100), GD_, {"attention": "linear"}),
}


def test_ordinary_sizes_pass():
    works = {case: compiling(*ORDINARY[case]) for case in ORDINARY}
    for case, got in forked_each(works, memory=500 * MB, cpu=30).items():
        assert got.error == "", (case, got.message)


MEASURED = {
    "network 800": (net(800, 800, 1), SGD_, {}),
    "network 1300 float32": (net(1300, 1), SGD_, {"dtype": torch.float32}),
    "network grid": (net(2, 3, 1), SGD_, {"n_grid": 10**6}),
    "stack 1000": (net(1000, 1000, 1), GD_, {}),
    "stack 400 x 3 boxed": (net(400, 400, 400, 1), GD(0.1, box=1.0), {}),
    "stack 700 layers": (net(*[1] * 700), GD_, {}),
    "stack 400 logistic outputs": (net(2, 400, loss="logistic"), GD_, {}),
    "stack products": (
        net(2, 150, 150, 1, activation="tanh"),
        GD_,
        {"products": "attention", "n_relu": 1000},
    ),
    "forward 700": (net(700, 700, 1), GD_, FORWARD),
    "forward 50 x 3": (net(50, 50, 50, 1), GD_, FORWARD),
    # A radius nothing else asks for: fits are kept, and what is kept takes no memory.
    "forward softplus": (net(2, 3, 1, activation="softplus"), GD_, {**FORWARD, "radius": 7.77}),
    "lasso": (icgd.Lasso(10**6, lam=0.1), GD_, {}),
    "ridge": (icgd.Ridge(10**6, lam=0.1), GD_, {}),
    "fitted": (GLM(3, "logistic"), GD_, {"n_grid": 700, "native": False}),
    "joint": (icgd.LinearModel(3, JOINT), GD_, {"n_grid": 300}),
    "regression": (LinearRegression(700, 10), GD_, {}),
    "regression four": (LinearRegression(500, 10), GD_, {"mode": "four"}),
    "regression outputs": (LinearRegression(10, 10, 700, lam=0.1), GD_, {}),
    "regression examples": (LinearRegression(10, 3 * 10**5), GD_, {}),
    "newton": (LinearRegression(400, 10), Newton(), {}),
    "newton sym": (LinearRegression(300, 10), Newton(), {"mode": "sym"}),
    "preconditioned": (LinearRegression(200, 10), Preconditioned(newton_steps=15), {}),
    "preconditioned steps": (LinearRegression(3, 10), Preconditioned(newton_steps=1500), {}),
    "decoder": (LinearRegression(400, 10), GD_, {"causal": True}),
    "decoder outputs": (LinearRegression(10, 10, 80), GD_, {"causal": True}),
    "linear": (LinearRegression(600, 10), GD_, {"attention": "linear"}),
    "series": (Autoregression(150, 4, 20), GD_, {}),
    "series order": (Autoregression(2, 80, 200), GD_, {}),
    "series steps": (Autoregression(2, 2, 4 * 10**4), GD_, {}),
    "chain": (MLPChain(400, 2, 10), GD_, {}),
    "chain layers": (MLPChain(2, 900, 2), GD_, {}),
    "chains": (MLPChain(2, 2, 10**4), GD_, {}),
}


def test_estimates_are_within_a_factor_of_three_of_what_compiling_takes():
    estimates = {case: estimate(*MEASURED[case]) for case in MEASURED}
    assert min(estimates.values()) > 50 * MB, "too small to be measured"
    assert max(estimates.values()) < memory_limit()
    works = {case: compiling(*MEASURED[case]) for case in MEASURED}
    for case, took in forked_each(works).items():
        assert took.error == "", (case, took.message)
        # Threads, libraries that are loaded late and the like are not counted.
        most = 3 * estimates[case] + 30 * MB
        assert estimates[case] / 3 < took.peak < most, (case, estimates[case] / MB, took.peak / MB)


def estimate(problem, optimizer, options):
    """The bytes that are asked for before anything is built."""
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blueprint, "require_room", lambda what, parts: _note(seen, parts))
        with pytest.raises(StopIteration):
            icgd.compile(problem, optimizer, **options)
    return sum(part.bytes for part in seen[0])


def _note(seen, parts):
    seen.append(parts)
    raise StopIteration  # before anything is built


def test_every_construction_has_an_estimate():
    assert not [own.name for own in OWN if own.size is None]
