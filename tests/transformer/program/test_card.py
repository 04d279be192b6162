"""A model card says what the program is."""

import pytest
import torch

import icgd
from icgd.base.construction import Construction
from icgd.mechanisms.catalogue import OWN
from icgd.transformer.program.card import card_of

PROGRAMS = {
    "softmax_cot_network": (icgd.Network((2, 3, 1)), icgd.SGD(0.125), {}),
    "relu_stack": (icgd.Network((2, 3, 1), "tanh"), icgd.GD(0.125), {"n_relu": 33}),
    "softmax_cot_statistics": (icgd.Lasso(3, lam=0.1), icgd.GD(0.125), {}),
    "looped_regression": (icgd.LinearRegression(3, 10), icgd.GD(0.125), {}),
    "looped_chain": (icgd.MLPChain(2, 1, 3), icgd.GD(0.125), {}),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_card_names_problem_optimizer_construction_and_certificate(name, tmp_path):
    problem, optimizer, options = PROGRAMS[name]
    program = icgd.compile(problem, optimizer, **options)
    program.save_pretrained(tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert "More Information Needed" not in text
    assert text.startswith("---\nlibrary_name: icgd\n")
    assert name in text
    assert program.construction.statement in text
    for part in ("problem", "optimizer"):
        for key, value in program.config[part].items():
            if value is not None and len(str(value)) <= 60:
                assert f"{key} {value}" in text
    assert f"{program.certificate.sup_error:.3g}" in text
    assert program.certificate.name in text


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_lines_of_code_load_and_run_it(name, tmp_path):
    problem, optimizer, options = PROGRAMS[name]
    icgd.compile(problem, optimizer, **options).save_pretrained(tmp_path)
    code = (tmp_path / "README.md").read_text().split("```python\n")[1].split("```")[0]
    draw = torch.Generator().manual_seed(0)
    d = 3 if isinstance(problem, (icgd.LinearModel, icgd.LinearRegression)) else 2
    X, y = (torch.rand(10, k, generator=draw, dtype=torch.float64) / 2 for k in (d, 1))
    chains = torch.tensor([[[1.0, 0.5], [0.5, 0.2]]] * 3, dtype=torch.float64)
    Y = y[:, 0] if isinstance(problem, icgd.LinearModel) else y
    names = {"X": X, "Y": Y, "chains": chains, "start": [[0.3, -0.2]]}
    exec(code.replace("path/to/this/directory", str(tmp_path)), names)
    assert names["program"].construction.name == name
    assert names["run"].weights is not None


def test_every_construction_is_described():
    for own in OWN:
        assert own.summary != Construction.summary
        assert own.statement


def test_one_from_outside_has_a_card_too():
    program = icgd.compile(icgd.Network((2, 1)), icgd.SGD(0.1))
    program.construction = Construction(
        name="mine", problem=icgd.Network, optimizer=icgd.SGD, build=lambda blueprint: program
    )
    assert "registered from outside" in card_of(program).content
