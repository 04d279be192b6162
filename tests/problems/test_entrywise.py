"""Losses that are not a function of one score and one target are refused before anything is compiled."""

import pytest
import torch
from torch import Tensor, nn

import icgd
from icgd.problems import Loss
from icgd.problems.entrywise import check_entrywise
from icgd.problems.losses import LOSSES


def cross_entropy(s: Tensor, y: Tensor) -> Tensor:
    return -(y * torch.log_softmax(s, dim=-1)).sum(dim=-1)


COUPLED = {
    "softmax cross-entropy": icgd.joint_loss(cross_entropy, "mine"),
    "its mean": icgd.joint_loss(nn.functional.cross_entropy, "mine"),
    "per entry": icgd.joint_loss(lambda s, y: -y * torch.log_softmax(s, -1), "mine"),
    "softmax link": icgd.link_loss(lambda s: torch.softmax(s, -1), "mine"),
    "normalised over the batch": icgd.joint_loss(lambda s, y: (s - s.mean(0) - y) ** 2, "mine"),
    # No mixed derivative anywhere, except where two outputs tie.
    "largest output": icgd.joint_loss(lambda s, y: torch.where(s == s.max(), s - y, 0 * s), "mine"),
}


@pytest.mark.parametrize("loss", COUPLED.values(), ids=COUPLED.keys())
@pytest.mark.parametrize("method", ["stack", "forward_mode"])
def test_a_loss_that_couples_outputs_is_refused(loss: Loss, method: str) -> None:
    network = icgd.Network((2, 3, 3), "tanh", loss=loss)
    with pytest.raises(icgd.InvalidParameter) as refused:
        icgd.compile(network, icgd.GD(lr=0.1), method=method)
    assert "must treat every output of every example by itself" in str(refused.value)
    assert "loss='logistic' with one 0/1 target per class" in str(refused.value)


def test_the_remedy_for_classes_is_true() -> None:
    """One logistic loss per class compiles, and its step is that of torch.optim.SGD on the same loss."""
    network = icgd.Network((2, 4, 3), "tanh", loss="logistic")
    program = icgd.compile(network, icgd.GD(lr=0.5), n_relu=1024)
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(9, 2, generator=generator, dtype=torch.float64)
    Y = torch.eye(3, dtype=torch.float64)[torch.arange(9) % 3]
    init = network.init(seed=1)
    check = icgd.verify(program, X, Y, init=init, steps=1)
    assert check.passed
    parameters = [p.clone().requires_grad_() for pair in init for p in pair if p is not None]
    W, b, V, c = parameters
    out = torch.tanh(X @ W.T + b) @ V.T + c
    nn.functional.binary_cross_entropy_with_logits(out, Y, reduction="none").sum(
        -1
    ).mean().backward()
    torch.optim.SGD(parameters, lr=0.5).step()
    ours = [p for pair in check.run.weights for p in pair]
    for mine, exact in zip(ours, parameters, strict=True):
        assert float((mine - exact.detach()).abs().max()) <= check.round_bound


@pytest.mark.parametrize(
    ("loss", "sentence"),
    [
        (icgd.joint_loss(nn.functional.mse_loss, "mine"), "give one number per entry"),
        (icgd.joint_loss(lambda s, y: ((s - y) ** 2).sum(), "mine"), "give one number per entry"),
        (icgd.joint_loss(lambda s, y: (s - y) ** 2 * torch.rand(()), "mine"), "the same slope"),
        (
            icgd.joint_loss(lambda s, y: nn.functional.dropout((s - y) ** 2), "mine"),
            "the same slope",
        ),
        (icgd.joint_loss(lambda s, y: ((s - y).detach()) ** 2, "mine"), "differentiable"),
        (icgd.joint_loss(lambda s, y: (s - y).detach() * s, "mine"), "torch.autograd gives it"),
        (icgd.joint_loss(lambda s, y: (s - y).round(), "mine"), "torch.autograd gives it"),
        (icgd.residual_loss(torch.abs, "mine"), "have a continuous slope"),
        (icgd.margin_loss(lambda m: (1 - m).relu(), "mine"), "have a continuous slope"),
        (icgd.joint_loss(lambda s, y: torch.log(s) * y, "mine"), "have a finite slope"),
        (icgd.joint_loss(lambda s, y: (s - y.mul_(2)) ** 2, "mine"), "leave its arguments"),
        (icgd.joint_loss(lambda s, y: s[:, :2, :] - y, "mine"), "be a function of torch tensors"),
        (icgd.link_loss(lambda s: 1.0, "mine"), "be a function of torch tensors"),
        (icgd.link_loss(lambda s: torch.as_tensor(s.detach().numpy()), "mine"), "differentiable"),
        (Loss("mine", "residual", torch.tanh), "`value` must be given"),
        (Loss("squared", "joint", lambda s, y: s**3), "not be that of a built-in loss"),
        (Loss("mine", "sum", lambda s, y: s), "be one of link, residual, margin, joint"),
    ],
)
@pytest.mark.parametrize("linear", [False, True])
def test_what_is_no_loss_of_one_entry_is_refused(loss: Loss, sentence: str, linear: bool) -> None:
    problem = icgd.LinearModel(2, loss) if linear else icgd.Network((2, 2, 1), "tanh", loss=loss)
    with pytest.raises(icgd.InvalidParameter, match=sentence):
        icgd.compile(problem, icgd.GD(lr=0.1))


def log_cosh(r: Tensor) -> Tensor:
    return r.abs() + nn.functional.softplus(-2 * r.abs())


ENTRYWISE = {
    **LOSSES,
    "huber 2": icgd.huber(2.0),
    "log cosh": icgd.residual_loss(log_cosh),
    "pseudo-Huber": icgd.joint_loss(lambda s, y: torch.sqrt(1 + (s - y) ** 2)),
    "probit": icgd.link_loss(lambda s: 0.5 * torch.erfc(-s / 2**0.5)),
    "squared hinge": icgd.margin_loss(lambda m: (1 - m).relu() ** 2, kinked=True),
    "two-sided": icgd.joint_loss(lambda s, y: (s - y).relu() ** 2 + 0.1 * (y - s).relu() ** 2),
    "steep": icgd.joint_loss(lambda s, y: torch.exp(4 * s) - y * s),
    "stabilised": icgd.joint_loss(
        lambda s, y: s.max() + torch.log(torch.exp(s - s.max()) + torch.exp(-s.max())) - y * s
    ),
    "constant in s for some y": icgd.joint_loss(lambda s, y: (y * s) ** 2),
}


@pytest.mark.parametrize("loss", ENTRYWISE.values(), ids=ENTRYWISE.keys())
@pytest.mark.parametrize(("radius", "y_radius"), [(0.5, 1.0), (8.0, 8.0), (16.0, 2.0)])
def test_losses_of_one_entry_are_not_refused(loss: Loss, radius: float, y_radius: float) -> None:
    check_entrywise(loss, radius, y_radius)


def test_a_slope_with_an_infinite_derivative_is_refused_by_name() -> None:
    loss = icgd.residual_loss(lambda r: r.abs() ** 1.5)
    with pytest.raises(icgd.AssumptionViolated, match="second derivative is not finite"):
        icgd.compile(icgd.Network((2, 2, 1), "tanh", loss=loss), icgd.GD(lr=0.1))


def test_a_bare_function_is_no_loss() -> None:
    with pytest.raises(icgd.InvalidParameter, match=r"icgd\.joint_loss\(f\)"):
        icgd.Network((2, 2, 1), loss=nn.functional.mse_loss)  # type: ignore[arg-type]
