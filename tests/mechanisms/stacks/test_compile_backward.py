"""A stack's default range fits standardised tables, at a price that was measured."""

import pytest
import torch
from sklearn import datasets

import icgd
from icgd.mechanisms.stacks.compile_backward import DEFAULTS, WIDE, default_radius

TABLES = {"diabetes": datasets.load_diabetes, "breast cancer": datasets.load_breast_cancer}


def standardised(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    found = TABLES[name]()
    X, y = found.data, found.target.astype(float)
    rows = torch.as_tensor((X - X.mean(0)) / X.std(0))
    return rows, torch.as_tensor((y - y.mean()) / y.std()).unsqueeze(1)


@pytest.mark.parametrize("name", TABLES)
def test_standardised_tables_fit_the_default_radius(name: str) -> None:
    X, Y = standardised(name)
    net = icgd.Network((X.shape[1], 16, 1), "tanh")
    wide = icgd.compile(net, icgd.GD(lr=0.05), method="stack", n_relu=64)
    narrow = icgd.compile(net, icgd.GD(lr=0.05), method="stack", n_relu=64, radius=8.0)
    refused = 0
    for seed in range(5):
        run = wide.run(X, Y, init=net.init(seed=seed), steps=2)
        assert run.range_use < 1
        try:
            narrow.predict(X, net.init(seed=seed))
        except icgd.AssumptionViolated:
            refused += 1
    assert refused > 0  # the range of old was too small for some of these


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "softplus", "gelu"])
def test_four_times_the_range_costs_at_most_two_and_a_half_times_the_error(activation: str) -> None:
    net = icgd.Network((2, 3, 1), activation)
    errors = [
        icgd.compile(net, icgd.GD(lr=0.1), method="stack", radius=radius).certificate.sup_error
        for radius in (DEFAULTS["radius"], WIDE)
    ]
    assert errors[0] < errors[1] <= 2.5 * errors[0]


def test_losses_that_grow_keep_the_smaller_range() -> None:
    for loss, radius in (("squared", 32.0), ("huber", 32.0), ("logistic", 32.0), ("poisson", 8.0)):
        assert default_radius(icgd.Network((2, 3, 1), "tanh", loss=loss).spec) == radius
    mine = icgd.joint_loss(lambda s, y: torch.sqrt(1 + (s - y) ** 2))
    program = icgd.compile(icgd.Network((2, 3, 1), "tanh", loss=mine), icgd.GD(lr=0.1), n_relu=64)
    assert program.config["options"]["radius"] == 8.0
