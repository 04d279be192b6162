"""`icgd compile`, then `icgd run` and `icgd verify` of what it wrote: results, messages, whole files."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file

RECIPE = """
import torch
from torch import nn

CALLS = []


def parts(n_out=1, dtype=torch.float64):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, n_out)).to(dtype)
    return model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def build():
    model, optimizer = parts()
    return model, nn.functional.mse_loss, optimizer


def classes():
    model, optimizer = parts(3)
    return {"model": model, "loss": nn.CrossEntropyLoss(), "optimizer": optimizer}


def other():
    torch.manual_seed(1)
    model = nn.Linear(3, 1).double()
    return model, nn.functional.mse_loss, torch.optim.SGD(model.parameters(), lr=0.1)


def raises():
    raise KeyError("no luck")


def nothing():
    pass


def single():
    model, optimizer = parts(dtype=torch.float32)
    return model, nn.functional.mse_loss, optimizer


def swapped():
    model, optimizer = parts()
    return model, optimizer, nn.functional.mse_loss


def greedy(width):
    pass
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    path = tmp_path_factory.mktemp("recipes") / "my_recipe.py"
    path.write_text(RECIPE)
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(10, 3, generator=generator, dtype=torch.float64)
    y = X @ torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    rows = [[*x, t, k % 3 + 5] for k, (x, t) in enumerate(zip(X.tolist(), y.tolist(), strict=True))]
    path = tmp_path_factory.mktemp("data") / "table.csv"
    path.write_text("\n".join(["a,b,c,y,kind", *(",".join(map(str, r)) for r in rows)]) + "\n")
    return path


@pytest.fixture(scope="module")
def numbers(data, tmp_path_factory):
    """The same table without the column of classes."""
    lines = [line.rpartition(",")[0] for line in data.read_text().splitlines()]
    path = tmp_path_factory.mktemp("data") / "numbers.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def compiled(icgd_command, recipe, numbers, tmp_path_factory):
    out = tmp_path_factory.mktemp("compiled") / "program"
    done = icgd_command(
        *("compile", f"{recipe}:build", "--data", numbers, "--target", "y"),
        *("--batch-size", 4, "--out", out),
    )
    assert done.exit_code == 0, done.output
    assert "critical depth" in done.output
    return out


def test_what_is_written_is_a_program_with_its_beginning(compiled, recipe, numbers):
    names = {p.name for p in compiled.iterdir()}
    assert {"config.json", "model.safetensors", "recipe.json", "initial.safetensors"} <= names
    settings = json.loads((compiled / "recipe.json").read_text())
    assert settings["recipe"] == f"{recipe}:build"
    assert (settings["target"], settings["features"]) == (["y"], ["a", "b", "c"])
    assert (settings["batch_size"], settings["classes"]) == (4, None)
    assert load_file(compiled / "initial.safetensors")["0.weight"].shape == (4, 3)


def test_a_run_is_what_pytorch_does(compiled, icgd_command, numbers, tmp_path):
    done = icgd_command("run", "--program", compiled, "--epochs", 2, "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["rounds"], len(result["losses"]), result["batch_size"]) == (6, 6, 4)
    trained = load_file(tmp_path / "run" / "weights.safetensors")
    table = torch.tensor(
        [list(map(float, line.split(","))) for line in numbers.read_text().splitlines()[1:]],
        dtype=torch.float64,
    )
    table = (table - table.mean(0)) / table.std(0, correction=0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    model = model.double()
    model.load_state_dict(load_file(compiled / "initial.safetensors"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(2):
        for rows in table.split(4):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(rows[:, :3]), rows[:, 3:]).backward()
            optimizer.step()
    for name, value in model.state_dict().items():
        assert float((trained[name] - value).abs().max()) < 1e-13
    again = icgd_command(
        *("run", "--program", compiled, "--data", numbers, "--epochs", 2, "--out", tmp_path / "b")
    )
    assert again.exit_code == 0
    same = load_file(tmp_path / "b" / "weights.safetensors")
    assert all(torch.equal(same[name], trained[name]) for name in trained)


def test_it_is_verified_with_the_recipe_only(compiled, icgd_command, recipe, tmp_path):
    done = icgd_command(
        *("verify", "--program", compiled, "--recipe", f"{recipe}:build"),
        *("--json", tmp_path / "check.json"),
    )
    assert done.exit_code == 0, done.output
    assert "passed" in done.output
    assert json.loads((tmp_path / "check.json").read_text())
    unasked = icgd_command("verify", "--program", compiled)
    assert unasked.exit_code == 2
    assert "never run unasked" in unasked.output
    other = icgd_command("verify", "--program", compiled, "--recipe", f"{recipe}:other")
    assert other.exit_code == 2
    assert "`--recipe` must return the model the program was compiled from" in other.output


def test_classes_become_indices(icgd_command, recipe, data, tmp_path):
    out = tmp_path / "program"
    done = icgd_command(
        *("compile", f"{recipe}:classes", "--data", data, "--target", "kind", "--classify"),
        *("--batch-size", 5, "--out", out),
    )
    assert done.exit_code == 2  # four features, and the model has three inputs
    assert "return a model and a loss for 4 features and class indices" in done.output
    assert not out.exists() or not any(out.iterdir())
    lines = [line.split(",") for line in data.read_text().splitlines()]
    three = tmp_path / "three.csv"
    three.write_text("\n".join(",".join((*r[:3], r[4])) for r in lines) + "\n")
    done = icgd_command(
        *("compile", f"{recipe}:classes", "--data", three, "--target", "kind", "--classify"),
        *("--batch-size", 5, "--out", out),
    )
    assert done.exit_code == 0, done.output
    assert json.loads((out / "recipe.json").read_text())["classes"] == [5.0, 6.0, 7.0]
    done = icgd_command("run", "--program", out, "--epochs", 1, "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("raises", "It raised KeyError"),
        ("nothing", "not nothing. Got"),
        ("single", "return a model in float64; 0.weight is float32"),
        ("swapped", "return a loss, a function of (prediction, target), in its place, not SGD"),
        ("greedy", "It needs width; give them defaults"),
        ("absent", "It has parts, build"),
        ("not-a-name", "FILE.py:FUNCTION"),
    ],
)
def test_a_recipe_that_will_not_do_is_refused_in_a_line(
    name, words, icgd_command, recipe, numbers, tmp_path
):
    done = icgd_command(
        *("compile", f"{recipe}:{name}", "--data", numbers, "--target", "y"),
        *("--out", tmp_path / "program"),
    )
    assert done.exit_code == 2
    assert words in done.output
    assert done.output.strip().splitlines()[-1].startswith("icgd: error: ")
    assert not (tmp_path / "program").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("compile", "nowhere.py:build", "--example", "diabetes"), "name a file that exists"),
        (("compile", "no.such.module:build", "--example", "diabetes"), "ModuleNotFoundError"),
        (("compile", "r.py:build"), "`--data` must be given, or --example"),
        (("compile", "r.py:build", "--example", "iris"), "`--example` must be one of"),
        (
            ("compile", "r.py:b", "--example", "diabetes", "--batch-size", 0),
            "`--batch-size` must be",
        ),
        (("compile", "r.py:b", "--example", "diabetes", "--heads", "loose"), "`--heads` must be"),
        (("run", "--example", "diabetes", "--batch-size", 4), "left out without --program"),
        (("run", "--program", "nowhere"), "nowhere"),
        (("run", "--program", "nowhere", "--lr", 0.5), "`--lr` must be left out with --program"),
        (("verify", "--paper", "COT", "--recipe", "r.py:b"), "`--recipe` must be left out"),
    ],
)
def test_bad_options_are_one_line(arguments, words, icgd_command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = icgd_command(*arguments)
    assert done.exit_code == 2
    assert words in done.output
    assert not list(tmp_path.iterdir())


def test_a_program_out_of_another_hand_is_refused(compiled, icgd_command, tmp_path):
    import shutil

    import icgd

    bare = tmp_path / "bare"
    shutil.copytree(compiled, bare)
    (bare / "recipe.json").write_text("{}")
    done = icgd_command("run", "--program", bare, "--out", tmp_path / "run")
    assert done.exit_code == 2
    assert "recipe.json is damaged" in done.output
    (bare / "recipe.json").unlink()
    done = icgd_command("run", "--program", bare, "--out", tmp_path / "run")
    assert done.exit_code == 2
    assert "was saved from Python" in done.output
    icgd.compile(icgd.Network((1, 1)), icgd.SGD(lr=0.1)).save_pretrained(tmp_path / "cot")
    done = icgd_command("run", "--program", tmp_path / "cot", "--out", tmp_path / "run")
    assert done.exit_code == 2
    assert "hold a program that icgd compile wrote" in done.output
    assert not (tmp_path / "run").exists()
