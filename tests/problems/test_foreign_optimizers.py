"""Optimizers and options from elsewhere are refused with what to write instead."""

import pytest
import torch

import icgd

NET = icgd.Network((3, 4, 1))
PARAMETER = torch.nn.Parameter(torch.zeros(1))


@pytest.mark.parametrize(
    ("optimizer", "sentences"),
    [
        (torch.optim.SGD([PARAMETER], lr=0.05), ["icgd.SGD(lr=0.05)", "icgd.GD(lr=0.05)"]),
        (
            torch.optim.SGD([PARAMETER], lr=0.05, momentum=0.9),
            ["icgd.SGD(lr=0.05)", "has momentum"],
        ),
        (torch.optim.SGD([PARAMETER], lr=0.05, weight_decay=0.1), ["icgd.Ridge(n, lam=...)"]),
        (torch.optim.Adam([PARAMETER]), ["torch.optim.Adam", "icgd.SGD(lr)", "icgd.Newton()"]),
        (icgd.SGD, ["That is a class", "icgd.SGD(lr=0.1)"]),
        (0.1, ["Got 'float'", "icgd.GD(lr)"]),
        ("sgd", ["Got 'str'", "icgd.SGD(lr)"]),
    ],
)
@pytest.mark.parametrize("problem", [NET, icgd.Ridge(3), icgd.LinearRegression(3, 5)])
def test_compile_says_what_to_write(problem: object, optimizer: object, sentences: list) -> None:
    with pytest.raises(
        icgd.InvalidParameter, match="`optimizer` must be an optimizer of icgd"
    ) as refused:
        icgd.compile(problem, optimizer)
    assert all(sentence in str(refused.value) for sentence in sentences), str(refused.value)


def test_a_torch_network_is_no_problem_and_the_message_says_what_is() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    with pytest.raises(icgd.InvalidParameter, match=r"icgd\.Network\(\(10, 16, 1\), 'relu'\)"):
        icgd.compile(module, icgd.SGD(lr=0.1))


@pytest.mark.parametrize("optimizer", [icgd.SGD, icgd.GD])
@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("momentum", 0.9, "docs/extend.md adds Nesterov"),
        ("batch_size", 32, "one row a round and icgd.GD all rows a step"),
        ("weight_decay", 1e-4, "icgd.Ridge"),
        ("betas", (0.9, 0.999), "Adam"),
        ("learning_rate", 0.1, "Write lr=..."),
        ("schedule", "cosine", "Its options are lr"),
    ],
)
def test_options_from_elsewhere_point_to_what_exists(
    optimizer: type, option: str, value: object, sentence: str
) -> None:
    with pytest.raises(icgd.InvalidParameter) as refused:
        optimizer(**{option: value})  # named first, whether or not there is an lr
    with pytest.raises(icgd.InvalidParameter) as refused:
        optimizer(lr=0.1, **{option: value})
    assert f"`{option}` must be left out: icgd.{optimizer.__name__} has no such option" in str(
        refused.value
    )
    assert sentence in str(refused.value)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "RMSprop", "LBFGS"])
def test_absent_optimizers_are_named_as_such(name: str) -> None:
    with pytest.raises(
        AttributeError, match=r"no construction has that optimizer\. There are icgd\.SGD"
    ):
        getattr(icgd, name)
    with pytest.raises(AttributeError, match=r"has no attribute 'Nothing'$"):
        icgd.Nothing


def test_descriptions_stay_plain_values() -> None:
    assert icgd.SGD(0.1) == icgd.SGD(lr=0.1)
    assert repr(icgd.GD(lr=0.1, box=2)) == "GD(lr=0.1, box=2.0)"
    assert hash(icgd.SGD(0.1)) == hash(icgd.SGD(0.1))


def test_a_step_size_must_be_given():
    with pytest.raises(
        icgd.InvalidParameter, match=r"`lr` must be a finite number > 0.*icgd.SGD\(lr=0.05\)"
    ):
        icgd.SGD()
