"""icgd run --method: three ways to train one network on one table, and one-line errors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from typer.testing import CliRunner

import icgd
from icgd.cli import app

runner = CliRunner()
MODULES = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    X = generator.normal(size=(30, 3))
    y = np.tanh(X @ np.array([1.0, -2.0, 0.5])) + 0.1 * generator.normal(size=30)
    table = np.column_stack([X, y])
    np.savetxt("data.csv", table, delimiter=",", header="a,b,c,y", comments="")
    return tmp_path


def run(*options: str, out: str = "out") -> tuple[int, str, dict[str, object]]:
    command = ["run", "data.csv", "--target", "y", "--widths", "5,4", "--out", out, *options]
    found = runner.invoke(app, command)
    written = Path(out) / "result.json"
    result = json.loads(written.read_text()) if written.exists() else {}
    return found.exit_code, found.output, result


def trained(activation: str, steps: int, lr: float, *, full_batch: bool) -> list[torch.Tensor]:
    """The same training by PyTorch alone, on standardised columns."""
    table = torch.tensor(np.loadtxt("data.csv", delimiter=",", skiprows=1))
    table = (table - table.mean(0)) / table.std(0, correction=0)
    X, Y = table[:, :3], table[:, 3:]
    network = nn.Sequential(
        nn.Linear(3, 5),
        MODULES[activation](),
        nn.Linear(5, 4),
        MODULES[activation](),
        nn.Linear(4, 1),
    ).double()
    start = icgd.Network((3, 5, 4, 1)).init(seed=0)
    linears = [m for m in network if isinstance(m, nn.Linear)]
    with torch.no_grad():
        for linear, (W, b) in zip(linears, start, strict=True):
            linear.weight.copy_(W)
            linear.bias.copy_(b)
    optimizer = torch.optim.SGD(network.parameters(), lr=lr)
    rows = [slice(None)] * steps if full_batch else [slice(i, i + 1) for i in range(30)] * steps
    for part in rows:
        optimizer.zero_grad()
        (0.5 * (network(X[part]) - Y[part]).square().sum(-1).mean()).backward()
        optimizer.step()
    return [t.detach() for m in linears for t in (m.weight, m.bias)]


@pytest.mark.parametrize(
    ("options", "activation", "bar"),
    [
        (("--method", "cot", "--epochs", "2"), "relu", 1e-12),
        (("--method", "stack", "--steps", "20"), "relu", 1e-12),
        (("--method", "stack", "--steps", "20", "--activation", "tanh"), "tanh", 1e-4),
        (("--method", "forward_mode", "--steps", "20"), "relu", 1e-8),
        (("--method", "forward_mode", "--steps", "20", "--activation", "tanh"), "tanh", 1e-11),
        (("--method", "forward_mode", "--steps", "5", "--activation", "gelu"), "gelu", 1e-5),
    ],
)
def test_three_methods_train_one_network(here, request, options, activation, bar):
    if activation != "relu":  # painted once for every method
        request.getfixturevalue("unpainted")
    code, output, result = run(*options)
    assert code == 0, output
    assert result["passed"] is True
    assert result["method"] == options[1]
    assert result["rounds_over_bound"] == 0
    assert result["loss_after"] < result["loss_before"]
    full = options[1] != "cot"
    exact = trained(activation, int(options[3]), 0.1 if full else 0.01, full_batch=full)
    stored = load_file("out/weights.safetensors")
    names = [f"layer{i}.{part}" for i in (1, 2, 3) for part in ("weight", "bias")]
    apart = max(
        float((stored[name] - want).abs().max()) for name, want in zip(names, exact, strict=True)
    )
    assert apart <= bar
    assert {p.name for p in Path("out").iterdir()} >= {"report.html", "loss.png", "error.png"}
    page = Path("out/report.html").read_text(encoding="utf-8")
    assert ("one example" in page) != full


@pytest.mark.usefixtures("unpainted")
def test_the_same_run_on_all_executors(here):
    found = {}
    for executor in ("structured", "sparse", "dense"):
        options = ("--method", "stack", "--activation", "tanh", "--n-relu", "8", "--steps", "2")
        code, output, _ = run(*options, "--widths", "3", "--executor", executor, out=executor)
        # Eight units are too few to show anything, on every executor alike.
        assert code == 1, output
        assert "INCONCLUSIVE" in output or "NOT PASSED" in output
        found[executor] = load_file(f"{executor}/weights.safetensors")
    for name, weight in found["structured"].items():
        assert float((found["sparse"][name] - weight).abs().max()) <= 1e-13
        assert float((found["dense"][name] - weight).abs().max()) <= 1e-12


@pytest.mark.usefixtures("unpainted")
def test_the_box_holds(here):
    code, output, _ = run("--method", "stack", "--steps", "10", "--box", "2.5", "--lr", "0.5")
    assert code == 0, output
    weights = load_file("out/weights.safetensors").values()
    assert max(float(w.abs().max()) for w in weights) <= 2.5


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (("--method", "loop"), "--method"),
        (("--method", "cot", "--steps", "5"), "--steps"),
        (("--method", "cot", "--activation", "tanh"), "--activation"),
        (("--method", "stack", "--epochs", "5"), "--epochs"),
        (("--method", "stack", "--n-grid", "40"), "--n-grid"),
        (("--method", "stack", "--attention", "tanh"), "--attention"),
        (("--method", "stack", "--n-relu", "1"), "--n-relu"),
        (("--method", "stack", "--box", "-1"), "box"),
        (("--method", "stack", "--box", "0.001"), "init"),
        (("--method", "stack", "--activation", "swish"), "--activation"),
        (("--method", "stack", "--activation", "tanh", "--radius", "0.01"), "radius"),
        (("--method", "forward_mode", "--attention", "exp"), "decay condition"),
        (("--method", "forward_mode", "--activation", "relu", "--attention", "tanh"), "attention"),
        (("--method", "forward_mode", "--activation", "tanh", "--output", "tanh"), "output"),
        (("--method", "cot", "--executor", "sparse"), "--executor"),
        (("--model", "ridge", "--widths", "16,16", "--method", "stack"), "--method"),
    ],
)
def test_bad_input_is_one_line(here, options, name):
    code, output, result = run(*options)
    assert code == 2, output
    line = output.strip().splitlines()[-1]
    assert line.startswith("icgd: error: ")
    assert name in line
    assert result == {}


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        (
            ("--activation", "tanh"),
            "Write --activation tanh with --method stack or --method forward_mode.",
        ),
        (("--n-relu", "64"), "Write --n-relu 64 with --method stack or --method forward_mode."),
        (("--attention", "tanh"), "Write --attention tanh with --method forward_mode."),
        (("--method", "stack", "--n-grid", "40"), "Write --n-grid 40 with --method cot."),
    ],
)
def test_an_option_of_another_method_says_which(here, options, remedy):
    code, output, _ = run(*options)
    assert code == 2, output
    assert remedy in output


def test_a_saved_stack_is_verified_on_the_command_line(here):
    net = icgd.Network((3, 4, 1), "tanh")
    for method in ("stack", "forward_mode"):
        program = icgd.compile(net, icgd.GD(lr=0.1), method=method, n_relu=160)
        program.save_pretrained(method)
        command = ["verify", "--program", method, "data.csv", "--target", "y", "--steps", "5"]
        found = runner.invoke(app, command)
        assert found.exit_code == 0, found.output
        with torch.no_grad():
            next(iter(program.step.parameters())).data.mul_(1.5)
        program.save_pretrained(method)
        assert runner.invoke(app, command).exit_code == 1
