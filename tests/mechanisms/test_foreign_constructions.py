"""Constructions from outside work everywhere; what is not known of one is said in a true sentence."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import icgd
from icgd.base.construction import construction, registered, unregister
from icgd.base.plugins import PluginWarning
from icgd.cli import app
from icgd.cli.run.settings import Settings
from icgd.mechanisms.loops.regression.compile import regression_program
from icgd.mechanisms.loops.regression.fused import fuse
from icgd.mechanisms.loops.regression.layers import RegressionBuilder
from icgd.transformer.nn.named_parts import named_parts
from icgd.transformer.nn.stack.stack import Stack

F64 = torch.float64
NAMES = ("clear", "pop", "keys", "training", "forward", "a.b", "")


PAGE = Path(__file__).parents[2] / "docs" / "extend.md"


def plug_in() -> str:
    """The file nesterov.py of docs/extend.md."""
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[0]


@pytest.fixture
def nesterov(monkeypatch: pytest.MonkeyPatch) -> Iterator[type]:
    """The construction of docs/extend.md, registered for one test."""
    module = ModuleType("nesterov")
    monkeypatch.setitem(sys.modules, "nesterov", module)  # dataclasses look their module up
    exec(compile(plug_in(), "nesterov.py", "exec"), vars(module))
    yield module.Nesterov
    unregister("nesterov_loop")


@pytest.fixture
def unjudged(nesterov: type) -> Iterator[icgd.Program]:
    """A program of a construction whose exact algorithm nobody has described."""
    known = construction("nesterov_loop")
    unregister("nesterov_loop")
    icgd.register(replace(known, name="unjudged", exact=None))
    yield icgd.compile(icgd.LinearRegression(2, 6), nesterov(0.1))
    unregister("unjudged")


def data() -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    X = torch.randn(6, 2, generator=g, dtype=F64)
    return X, X @ torch.tensor([1.0, -2.0], dtype=F64)


def table(path: Path) -> Path:
    X, y = data()
    rows = [
        "a,b,y",
        *(f"{a:.6f},{b:.6f},{c:.6f}" for (a, b), c in zip(X.tolist(), y.tolist(), strict=True)),
    ]
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize("rounds", [{"steps": 3}, {"epochs": 1}, {}])
def test_verify_says_that_it_does_not_know_a_construction(
    unjudged: icgd.Program, rounds: dict
) -> None:
    with pytest.raises(
        icgd.InvalidParameter, match=r"Got 'unjudged'\. Run it with record='weights'"
    ):
        icgd.verify(unjudged, *data(), **rounds)


@pytest.mark.parametrize("optimizer", [icgd.PreconditionedGD(), None])
def test_constructions_of_the_package_without_an_exact_algorithm_say_so(optimizer: object) -> None:
    problem = icgd.MLPChain(2, 2, 4) if optimizer is None else icgd.LinearRegression(2, 6)
    program = icgd.compile(problem, optimizer or icgd.GD(lr=0.1))
    with pytest.raises(icgd.InvalidParameter, match="be of a construction with an exact algorithm"):
        icgd.verify(program, *data(), steps=2)


def test_a_saved_program_of_an_unregistered_construction_names_what_is_missing(
    unjudged: icgd.Program, tmp_path: Path
) -> None:
    unjudged.save_pretrained(tmp_path / "p")
    assert icgd.Program.from_pretrained(tmp_path / "p").construction.name == "unjudged"
    words = ["verify", "--program", str(tmp_path / "p"), str(table(tmp_path / "d.csv"))]
    answer = CliRunner().invoke(app, [*words, "--target", "y"])
    assert answer.exit_code == 2
    assert "Got 'unjudged'" in answer.output
    assert "Traceback" not in answer.output
    unregister("unjudged")
    with pytest.raises(icgd.InvalidFile) as refused:
        icgd.Program.from_pretrained(tmp_path / "p")
    assert "describes the construction 'unjudged', which is not registered here" in str(
        refused.value
    )
    assert "icgd.register" in str(refused.value)
    assert "not written by icgd" not in str(refused.value)


# -- the project of docs/extend.md -----------------------------------------------------------------


def test_the_plug_in_is_short() -> None:
    assert len([line for line in plug_in().splitlines() if line.strip()]) <= 60


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_the_plug_in_has_the_penalty_of_its_problem(nesterov: type, decay: float) -> None:
    """lam of the problem and the decay of the optimizer add up, in the program and in torch.optim."""
    X, y = data()
    lam, optimizer = 0.5, nesterov(0.1, 0.8, decay)
    program = icgd.compile(icgd.LinearRegression(2, 6, lam=lam, x_radius=6.0), optimizer)
    check = icgd.verify(program, X, y, steps=40)
    assert check.passed, check.notes
    w = torch.zeros(2, dtype=F64, requires_grad=True)
    sgd = torch.optim.SGD([w], 0.1, 0.8, weight_decay=lam + decay, nesterov=True)
    for _ in range(40):
        sgd.zero_grad()
        (0.5 * (X @ w - y).square().mean()).backward()
        sgd.step()
    assert float((program.run(X, y, steps=40).weights - w.detach()).abs().max()) < 1e-13
    plain = icgd.compile(icgd.LinearRegression(2, 6, x_radius=6.0), optimizer)
    assert float((plain.run(X, y, steps=40).weights - w.detach()).abs().max()) > 1e-2
    program.problem = plain.problem  # a penalty that is claimed away
    assert icgd.verify(program, X, y, steps=40).verdict == "failed"


@pytest.mark.parametrize("scale", [2.0**-10, 2.0**8])
def test_the_bound_of_the_plug_in_does_not_depend_on_units(nesterov: type, scale: float) -> None:
    """X in other units with lr to match takes the same steps: the bound on w changes by the unit alone."""
    X, y = data()
    bounds = {}
    for s in (1.0, scale):
        problem = icgd.LinearRegression(2, 6, lam=0.01 * s**2, x_radius=6.0 * s)
        optimizer = nesterov(0.1 / s**2, 0.9, 0.01 * s**2)
        check = icgd.verify(icgd.compile(problem, optimizer), s * X, y, steps=50)
        assert check.passed, check.notes
        bounds[s] = s * check.global_bound
    assert 0.9 < bounds[scale] / bounds[1.0] < 1.1


SCENES = [(1, 2, 0.0, 0.0, 1), (3, 8, 0.9, 0.0, 30), (2, 12, 0.5, 0.1, 30), (4, 3, 0.99, 1e-3, 60)]


@pytest.mark.parametrize(("d", "n", "momentum", "decay", "steps"), SCENES)
@pytest.mark.parametrize("outputs", [1, 2])
def test_the_plug_in_is_verified_against_torch(
    nesterov: type, d: int, n: int, momentum: float, decay: float, steps: int, outputs: int
) -> None:
    """Its bound holds, means something, and a claim that is off by a thousandth is found."""
    if momentum == 0.0:
        momentum = 1e-3  # torch refuses Nesterov without momentum
    g = torch.Generator().manual_seed(d)
    X = torch.randn(n, d, generator=g, dtype=F64).clamp(-2, 2)
    Y = torch.randn(n, outputs, generator=g, dtype=F64)
    program = icgd.compile(
        icgd.LinearRegression(d, n, outputs, x_radius=6.0), nesterov(0.05, momentum, decay)
    )
    check = icgd.verify(program, X, Y, steps=steps)
    assert check.passed, check.notes
    assert check.max_error <= check.global_bound < 1e-6
    assert check.prediction_error <= check.prediction_bound < 1e-4
    dense = program.run(X, Y, steps=3, executor="dense").weights
    assert float((dense - program.run(X, Y, steps=3).weights).abs().max()) < 1e-12
    for wrong in ("lr", "momentum", "weight_decay"):
        altered = replace(
            program.optimizer, **{wrong: 1.001 * getattr(program.optimizer, wrong) + 1e-6}
        )
        program.optimizer, right = altered, program.optimizer
        if steps > 1 or wrong == "lr":  # before the second step neither acts from w = 0
            assert not icgd.verify(program, X, Y, steps=steps).passed, wrong
        program.optimizer = right


def test_a_project_outside_the_package(tmp_path: Path) -> None:
    """Compiled, verified, traced and saved in one process; loaded, counted and verified in others."""
    (tmp_path / "nesterov.py").write_text(plug_in())
    (tmp_path / "use.py").write_text(
        "import icgd, torch\nfrom nesterov import Nesterov\n"
        "X = torch.randn(6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)\n"
        "y = X @ torch.tensor([1.0, -2.0], dtype=torch.float64)\n"
        "program = icgd.compile(icgd.LinearRegression(2, 6), Nesterov(0.1, 0.5, 0.01))\n"
        "assert icgd.verify(program, X, y, steps=20).passed\n"
        "assert icgd.record_trace(program, X, y, steps=3).n_rounds == 3\n"
        "assert icgd.cost(program).construction == 'nesterov_loop'\n"
        "program.save_pretrained('saved')\n"
        "torch.save(program.run(X, y, steps=5).weights, 'weights.pt')\n"
    )
    (tmp_path / "load.py").write_text(
        "import icgd, torch, nesterov\n"
        "X = torch.randn(6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)\n"
        "y = X @ torch.tensor([1.0, -2.0], dtype=torch.float64)\n"
        "program = icgd.Program.from_pretrained('saved')\n"
        "assert program.optimizer == nesterov.Nesterov(0.1, 0.5, 0.01)\n"
        "assert torch.equal(program.run(X, y, steps=5).weights, torch.load('weights.pt'))\n"
        "from icgd.cli import main\n"
        "import sys\n"
        "sys.argv[1:] = ['--plugin', 'nesterov', 'cost', '--program', 'saved']\n"
        "main()\n"
    )
    table(tmp_path / "d.csv")
    icgd_command = [sys.executable, "-m", "icgd", "--plugin", "nesterov.py"]
    for words, wanted in (
        ([sys.executable, "use.py"], ""),
        ([sys.executable, "load.py"], "move_r"),
        ([*icgd_command, "cost", "--list"], "nesterov_loop"),
        (
            [*icgd_command, "verify", "--program", "saved", "d.csv", "--target", "y"],
            "icgd verify: passed",
        ),
    ):
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert wanted in done.stdout
    lost = subprocess.run(
        [sys.executable, "-m", "icgd", "--plugin", "absent", "cost", "--list"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert lost.returncode == 2
    assert "`--plugin` must be a module" in lost.stderr


def test_names_of_the_package_are_taken(nesterov: type) -> None:
    known = construction("nesterov_loop")
    for name, must in (("looped_newton", "be new"), ("two words", "be a Python identifier")):
        with pytest.raises(icgd.InvalidParameter, match=must):
            icgd.register(replace(known, name=name))
    with pytest.raises(icgd.InvalidParameter, match=r"be an icgd\.Construction"):
        icgd.register(icgd.Network)


def test_a_fused_program_is_verified_on_the_command_line_too(tmp_path: Path) -> None:
    program = fuse(icgd.compile(icgd.LinearRegression(2, 6), icgd.GD(lr=0.2)))
    X, y = data()
    for steps in (1, 5):
        check = icgd.verify(program, X, y, steps=steps)
        assert check.passed, check.notes
        assert len(check.rounds) == steps
    program.save_pretrained(tmp_path / "p")
    how = ["--steps", "5", "--target", "y"]
    answer = CliRunner().invoke(
        app, ["verify", "--program", str(tmp_path / "p"), str(table(tmp_path / "d.csv")), *how]
    )
    assert answer.exit_code == 0, answer.output
    assert "icgd verify: passed" in answer.output
    assert "predictions with the final weights" in answer.output


@pytest.mark.parametrize("name", NAMES)
def test_names_that_torch_keeps_for_itself_are_refused_by_name(name: str) -> None:
    program = icgd.compile(icgd.LinearRegression(2, 4), icgd.GD(lr=0.1))
    part = next(iter(program.step.sublayers.values()))
    with pytest.raises(icgd.InvalidParameter, match="`sublayers` must have names") as refused:
        Stack(program.layout, {name: part}, n_layers=1, radius=1.0)
    assert f"Got {name!r}" in str(refused.value)
    assert list(named_parts("sublayers", {"erase": part})) == ["erase"]


# -- what a plug-in may get wrong -------------------------------------------------------------------


class Plain:
    """A problem that is no dataclass and says nothing of itself."""


@dataclass(frozen=True)
class Mine:
    """A step size of my own."""

    lr: float = 0.1


@dataclass(frozen=True)
class Other:
    """Another optimizer."""

    lr: float = 0.1


def built(blueprint: icgd.Blueprint) -> icgd.Program:
    return regression_program(blueprint, RegressionBuilder)


@pytest.fixture
def outside() -> Iterator[Callable[..., icgd.Construction]]:
    """Registers constructions for one test."""
    before = set(registered())

    def make(name: str = "outside", **parts: Any) -> icgd.Construction:
        parts = {"problem": icgd.LinearRegression, "optimizer": Mine, "build": built, **parts}
        return icgd.register(icgd.Construction(name=name, **parts))

    yield make
    for name in set(registered()) - before:
        unregister(name)


def test_names_of_the_package_are_taken_before_anything_else_is_loaded() -> None:
    code = (
        "import icgd\n"
        "class A: pass\n"
        "try:\n"
        "    icgd.register(icgd.Construction(name='looped_newton', problem=A, optimizer=A, build=print))\n"
        "except icgd.InvalidParameter as refused: print(refused)\n"
        "icgd.register(icgd.Construction(name='mine', problem=A, optimizer=A, build=print))\n"
        "from icgd.base.construction import constructions\n"
        "print(list(constructions())[0], list(constructions())[-1])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    refused, order = done.stdout.splitlines()
    assert "`name` must be new: the package has a construction of that name" in refused
    assert order == "softmax_cot_network mine"


def test_the_package_keeps_its_own_constructions() -> None:
    unregister("looped_newton")
    assert construction("looped_newton").is_own


AMBIGUOUS: dict[str, dict[str, Any]] = {
    "same types": {"optimizer": icgd.GD},
    "a class that is part of another": {
        "problem": icgd.RepresentationRegression,
        "optimizer": icgd.GD,
    },
    "by their names": {
        "problem": "icgd.problems:LinearRegression",
        "optimizer": "icgd.problems:GD",
    },
    "among several": {"problem": (Plain, icgd.LinearRegression), "optimizer": (Mine, icgd.GD)},
    "the options of another": {"optimizer": icgd.GD, "options": icgd.ProductOptions},
    "a network without a method": {"problem": icgd.Network, "optimizer": icgd.GD},
}


@pytest.mark.parametrize("case", AMBIGUOUS)
def test_constructions_that_nothing_tells_apart_are_refused(case: str, outside: Callable) -> None:
    with pytest.raises(icgd.InvalidParameter, match="Give it a `method`") as refused:
        outside(**AMBIGUOUS[case])
    assert "which takes" in str(refused.value)


def test_what_tells_constructions_apart_is_enough_to_reach_them(outside: Callable) -> None:
    @dataclass(frozen=True)
    class Choice:
        n_grid: int | None = None

    outside("by_method", optimizer=icgd.GD, method="mine")
    outside("by_keyword", optimizer=icgd.GD, when={"mine": True})
    outside("by_two", optimizer=icgd.GD, when={"mine": True, "twice": 2})
    outside("by_options", optimizer=icgd.GD, options=Choice)
    problem, gd = icgd.LinearRegression(2, 4), icgd.GD(0.1)
    for wanted, given in (
        ("looped_regression", {}),
        ("by_method", {"method": "mine"}),
        ("by_keyword", {"mine": True}),
        ("by_two", {"mine": True, "twice": 2}),
        ("by_options", {"options": Choice(n_grid=48)}),
    ):
        assert icgd.compile(problem, gd, **given).construction.name == wanted
    with pytest.raises(
        icgd.InvalidParameter, match="`method` must be new: the construction 'by_method'"
    ):
        outside("again", method="mine")


def test_classes_that_are_named_and_loaded_late_are_compared_when_compiling(
    outside: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "late_names.py").write_text("from icgd import GD, LinearRegression\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    outside(problem="late_names:LinearRegression", optimizer="late_names:GD")
    with pytest.raises(icgd.InvalidParameter, match="differ from 'looped_regression'"):
        icgd.compile(icgd.LinearRegression(2, 4), icgd.GD(0.1))
    monkeypatch.delitem(sys.modules, "late_names")


@pytest.mark.parametrize("part", ["problem", "optimizer", "options"])
def test_a_plug_in_whose_classes_do_not_load_is_named_and_left_out(
    part: str, outside: Callable
) -> None:
    outside(**{part: "no_such_module:Name"})
    with pytest.warns(PluginWarning, match="'outside', 'no_such_module:Name', cannot be loaded"):
        program = icgd.compile(icgd.LinearRegression(2, 4), icgd.GD(0.1))
    assert program.construction.is_own


def test_options_that_are_no_dataclass_once_they_are_loaded_leave_the_package_alone(
    outside: Callable,
) -> None:
    outside(options="builtins:int", method="outside")
    with pytest.warns(PluginWarning, match="names <class 'int'>, which is no dataclass"):
        assert icgd.compile(icgd.LinearRegression(2, 4), icgd.GD(0.1)).construction.is_own
    remedy = Settings(Path("out"), example="diabetes", n_relu=4)
    with pytest.raises(icgd.InvalidParameter, match="Write --n-relu 4 with --method stack"):
        remedy.check()


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("options", int),
        ("options", Mine()),
        ("when", ["causal"]),
        ("rounds", "weeks"),
        ("settings", "box"),
        ("executors", 3),
        ("parts", ["a:b"]),
        ("cost", 3),
        ("title", None),
    ],
)
def test_a_description_that_could_not_be_read_later_is_refused(
    part: str, value: object, outside: Callable
) -> None:
    with pytest.raises(icgd.InvalidParameter, match=f"`{part}` must be "):
        outside(**{part: value})


def test_the_optimizer_is_checked_without_choose(outside: Callable) -> None:
    outside("one", method="one")
    outside("two", optimizer=Other)
    problem = icgd.LinearRegression(2, 4)
    for wrong in (Other(), icgd.GD(0.1)):
        with pytest.raises(
            icgd.InvalidParameter, match=r"`optimizer` must be Mine for one\. Got '"
        ):
            icgd.compile(problem, wrong, method="one")
    assert icgd.compile(problem, Other()).construction.name == "two"


# -- what comes back from a file --------------------------------------------------------------------


@dataclass(frozen=True)
class Scheduled:
    """An optimizer with a field that it works out, and a tuple."""

    lr: float
    betas: tuple[float, float] = (0.5, 0.25)
    twice: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "twice", 2 * self.lr)


class Described:
    """An optimizer that is no dataclass, and says how it is stored."""

    def __init__(self, step: float) -> None:
        self.lr = step

    def to_config(self) -> dict[str, float]:
        return {"step_in_thousandths": 1000 * self.lr}

    @classmethod
    def from_config(cls, config: dict[str, float]) -> Described:
        return cls(config["step_in_thousandths"] / 1000)


class Wide(icgd.LinearRegression):
    """A problem class of its own."""

    def to_config(self) -> dict[str, Any]:
        return {"n": [self.n_features, self.n_examples]}

    @staticmethod
    def from_config(config: dict[str, Any]) -> Wide:
        return Wide(*config["n"])


def returned(program: icgd.Program, where: Path) -> icgd.Program:
    program.save_pretrained(where)
    again = icgd.Program.from_pretrained(where)
    X, y = data()
    assert torch.equal(again.run(X, y, steps=3).weights, program.run(X, y, steps=3).weights)
    return again


def test_optimizers_come_back_as_they_were(outside: Callable, tmp_path: Path) -> None:
    outside(optimizer=(Mine, Scheduled, Described))
    problem = icgd.LinearRegression(2, 6)
    for k, optimizer in enumerate((Mine(0.2), Scheduled(0.125), Described(0.25))):
        again = returned(icgd.compile(problem, optimizer), tmp_path / str(k)).optimizer
        assert type(again) is type(optimizer)
        assert vars(again) == vars(optimizer)


def test_each_of_several_problems_comes_back_as_itself(outside: Callable, tmp_path: Path) -> None:
    kinds = (Wide, icgd.LinearRegression)
    outside(problem=kinds)
    for k, problem in enumerate((icgd.LinearRegression(2, 6), Wide(2, 6))):
        again = returned(icgd.compile(problem, Mine()), tmp_path / str(k)).problem
        assert type(again) is type(problem)


@dataclass(frozen=True)
class Named:
    """The class of an optimizer is stored under `name`."""

    lr: float = 0.1
    name: str = "adagrad"


@dataclass(frozen=True)
class Renamed(Mine):
    """No class that was registered."""


@dataclass(frozen=True)
class Untyped:
    """A tuple that is not declared as one."""

    lr: float = 0.1
    betas: Any = (1, 2)


@dataclass(frozen=True)
class Unwritable:
    """Something that no file holds."""

    lr: float = 0.1
    schedule: Any = max


@dataclass
class Settable:
    """A field that only an assignment changes, and no file knows."""

    lr: float = 0.1
    halved: bool = field(init=False, default=False)


def halved() -> Settable:
    optimizer = Settable()
    optimizer.halved = True
    return optimizer


class Unmakeable(Described):
    """It forgets how it is made."""

    @classmethod
    def from_config(cls, config: dict[str, float]) -> Unmakeable:
        return cls(config["absent"])


@pytest.mark.parametrize(
    ("optimizer", "sentence"),
    [
        (Named(), "`Named.name` must be called otherwise: files keep the class of an optimizer"),
        (Renamed(), "`optimizer` must be Mine or Named"),
        (Untyped(), r"`optimizer` must come back from a file as it is.*\(`betas` differs\)"),
        (halved(), r"`optimizer` must come back from a file as it is.*\(`halved` differs\)"),
        (Unwritable(), "`optimizer.schedule` must be made of numbers, texts, lists and dicts"),
        (Unmakeable(0.1), "`optimizer` must be made again from what a file holds.*KeyError"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_file_would_change_is_refused_when_compiling(
    optimizer: Any, sentence: str, outside: Callable
) -> None:
    outside(optimizer=(Mine, Named, Untyped, Settable, Unwritable, Unmakeable))
    with pytest.raises(icgd.InvalidParameter, match=sentence):
        icgd.compile(icgd.LinearRegression(2, 6), optimizer)


def test_options_that_a_file_would_change_are_refused_too(outside: Callable) -> None:
    @dataclass(frozen=True)
    class Choice:
        pair: Any = None

    outside(options=Choice)
    icgd.compile(icgd.LinearRegression(2, 6), Mine(), pair=[1, 2])
    with pytest.raises(icgd.InvalidParameter, match=r"`options\['pair'\]` must come back"):
        icgd.compile(icgd.LinearRegression(2, 6), Mine(), pair=(1, 2))


# -- parts that fail --------------------------------------------------------------------------------


def nonsense(*given: Any, **named: Any) -> str:
    return "nonsense"


def failing(*given: Any, **named: Any) -> None:
    raise ZeroDivisionError("of my own")


@pytest.mark.parametrize(
    ("part", "wanted"), [(nonsense, "Got str"), (failing, "ZeroDivisionError")]
)
def test_faults_of_a_part_are_said_of_that_part(
    part: Callable, wanted: str, outside: Callable, tmp_path: Path
) -> None:
    problem, (X, y) = icgd.LinearRegression(2, 6), data()
    for name in ("build", "choose"):
        outside(**{name: part})
        with pytest.raises(
            icgd.FaultyPlugin, match=f"`{name}` of the construction 'outside'.*{wanted}"
        ):
            icgd.compile(problem, Mine())
    for name in ("exact", "verifier"):
        outside(**{name: part})
        with pytest.raises(
            icgd.FaultyPlugin, match=f"`{name}` of the construction 'outside'.*{wanted}"
        ):
            icgd.verify(icgd.compile(problem, Mine()), X, y, steps=2)
    outside()
    icgd.compile(problem, Mine()).save_pretrained(tmp_path / "p")
    outside(build=part)
    with pytest.raises(icgd.InvalidFile, match=f"`build` of the construction 'outside'.*{wanted}"):
        icgd.Program.from_pretrained(tmp_path / "p")
    words = ["cost", "--program", str(tmp_path / "p")]
    answer = CliRunner().invoke(app, words)
    assert answer.exit_code == 2
    assert answer.stderr.count("\n") == 1
