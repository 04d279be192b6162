"""A program that comes out of a file is the program that went in, in another process too."""

from __future__ import annotations

import subprocess
import sys

import machine_cases as cases
import pytest
import torch
from machine_cases import ACTIVATIONS, LOSSES, data, trained
from safetensors.torch import load_file, save_file

import icgd

TOGETHER = [
    *zip(ACTIVATIONS, [*LOSSES, "mse"], strict=True),
]
"""Every activation and every loss, each once."""
ELSEWHERE = """
import sys
from pathlib import Path
from safetensors.torch import load_file, save_file
import torch
import icgd

torch.set_num_threads(2)
for place in sorted(p for p in Path(sys.argv[1]).iterdir() if p.is_dir()):
    program = icgd.Program.from_pretrained(place)
    given = load_file(place.with_suffix(".given"))
    init = {n.removeprefix("init."): v for n, v in given.items() if n.startswith("init.")}
    run = program.run(given["X"], given["y"], init=init, epochs=3, batch_size=4, shuffle=0)
    answer = run.predict(given["X"])
    kept = {f"weight.{n}": v for n, v in program.state_dict().items()}
    kept |= {f"run.{n}": v for n, v in run.state_dict.items()}
    kept |= {"losses": run.losses, "answer": answer}
    save_file({n: v.contiguous() for n, v in kept.items()}, place.with_suffix(".results"))
"""


def expected(net, program, X, y):
    run = program.run(X, y, epochs=3, batch_size=4, shuffle=0)
    kept = {f"weight.{n}": v for n, v in program.state_dict().items()}
    kept |= {f"run.{n}": v for n, v in run.state_dict.items()}
    return kept | {"losses": run.losses, "answer": run.predict(X)}


def test_every_activation_and_loss_comes_back_to_the_last_bit_in_another_process(tmp_path):
    wanted = {}
    for activation, loss in TOGETHER:
        net, program = trained(activation, loss)
        name = f"{activation}-{loss}"
        X, y = data(loss)
        program.save_pretrained(tmp_path / name)
        init = {f"init.{n}": v for n, v in net.state_dict().items()}
        save_file({"X": X, "y": y, **init}, tmp_path / f"{name}.given")
        wanted[name] = expected(net, program, X, y)
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for name, values in wanted.items():
        read = load_file(tmp_path / f"{name}.results")
        assert set(read) == set(values)
        assert all(torch.equal(read[n], values[n]) for n in read), name


def test_a_training_comes_back_as_a_training(tmp_path):
    net, program = trained("tanh", "cross_entropy")
    program.save_pretrained(tmp_path)
    again = icgd.Program.from_pretrained(tmp_path)
    assert type(again) is type(program)
    assert again.config == program.config
    assert again.listing() == program.listing()
    assert again.cost == program.cost
    card = (tmp_path / "README.md").read_text()
    assert "init=model.state_dict()" in card
    assert "0.weight 3x2" in card
    assert "SGD (lr 0.1, momentum 0.9" in card
    X, y = data("cross_entropy")
    with pytest.raises(icgd.InvalidParameter, match="be given for a program out of a file"):
        again.run(X, y)
    with pytest.raises(icgd.InvalidParameter, match="Compile it with batch_sizes"):
        again.run(X, y, init=net.state_dict(), batch_size=3)
    state = again.run(X, y, init=net.state_dict(), batch_size=4).optimizer_state
    optimizer = torch.optim.SGD(cases.model("tanh").parameters(), lr=1.0)
    optimizer.load_state_dict(state)
    assert optimizer.param_groups[0]["momentum"] == 0.9


def test_a_function_comes_back_as_a_function(tmp_path):
    a, b = torch.rand(2, 3, dtype=torch.float64) + 1, torch.rand(2, 3, dtype=torch.float64)
    program = icgd.compile(lambda x, z: torch.log(x) * z + x, example=(a, b))
    program.save_pretrained(tmp_path)
    again = icgd.Program.from_pretrained(tmp_path)
    assert type(again) is type(program)
    assert torch.equal(again(a, b), program(a, b))
    assert torch.equal(again.run(a, b, steps=3), program.run(a, b, steps=3))
    assert "program.run(a, b, steps=50)" in (tmp_path / "README.md").read_text()
