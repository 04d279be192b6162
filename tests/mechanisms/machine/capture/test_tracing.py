"""What cannot be one graph is refused in a sentence with the line: branches, shapes, chance, operations."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import torch
from captured_runs import double
from torch import nn

import icgd
from icgd.errors import AssumptionViolated, DataDependentStep, UnsupportedOp
from icgd.mechanisms.machine.capture.function import capture_function
from icgd.mechanisms.machine.capture.step import capture_step
from icgd.mechanisms.machine.capture.textbook import training_step

F = nn.functional
THIS = "test_tracing.py"
X = torch.linspace(-1, 1, 12, **double).reshape(3, 4)


class Layer(nn.Module):
    """A linear layer and a function of what it gives."""

    def __init__(self, function):
        super().__init__()
        self.linear, self.function = nn.Linear(4, 4), function

    def forward(self, x):
        return self.function(self.linear(x))


def capture(model, optimizer=torch.optim.SGD, fresh=True):
    torch.manual_seed(0)
    model = model.double()
    optimizer = optimizer(model.parameters(), lr=0.1)
    step = training_step(model, optimizer, F.mse_loss)
    return capture_step(step, model, optimizer, (X, X.flip(0)), fresh=fresh)


def line_of(function, text):
    """Number of the line of this file with that text, inside a function."""
    first = function.__code__.co_firstlineno
    lines = Path(__file__).read_text().splitlines()
    return next(i for i in range(first, first + 9) if text in lines[i - 1])


# -- data decide ----------------------------------------------------------------------------------


def branching(h):
    if h.sum() > 0:
        h = -h
    return h


def logging(h):
    print(f"{h.sum().item():.3f}")
    return h


def choosing(h):
    return h[h > 0].sum() * h


def test_a_branch_on_a_number_is_named():
    with pytest.raises(DataDependentStep) as caught:
        capture(Layer(branching))
    error = caught.value
    assert (error.file, error.condition) == (THIS, "if h.sum() > 0:")
    assert error.line == line_of(branching, "if h.sum()")
    assert str(error) == (
        "Python branches on a computed number, or prints or converts it, so the step is not one fixed "
        f"sequence: {THIS}:{error.line}: if h.sum() > 0:. Compute both branches and choose with torch.where; "
        "print and log outside the step."
    )
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert icgd.DataDependentStep is DataDependentStep


def test_printing_a_number_is_named(capsys):
    with pytest.raises(DataDependentStep, match=r"print\(f.*print and log outside"):
        capture(Layer(logging))


def test_a_shape_that_depends_on_numbers_is_named():
    with pytest.raises(
        DataDependentStep, match=r"The shape of a result .*return h\[h > 0\]"
    ) as caught:
        capture(Layer(choosing))
    assert caught.value.shape
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_branch_inside_pytorch_names_both_lines():
    def loss(x, y):
        return F.gaussian_nll_loss(x, y, torch.exp(x))

    with pytest.raises(
        DataDependentStep, match=r"gaussian_nll_loss.*\(in functional.py:\d+: .*any"
    ):
        capture_function(loss, (X, X.flip(0)))


@pytest.mark.parametrize("kind", [torch.optim.RAdam, torch.optim.ASGD])
def test_a_branch_of_an_optimizer_names_its_line(kind):
    with pytest.raises(
        DataDependentStep, match=rf"optimizer.step\(\) \(in {kind.__name__.lower()}.py:"
    ):
        capture(Layer(torch.tanh), kind, fresh=False)


# -- random numbers -------------------------------------------------------------------------------


def test_random_numbers_are_refused_all_at_once():
    def noisy(h):
        h = F.dropout(h, 0.5)
        return h + torch.rand(4, **double)

    with pytest.raises(UnsupportedOp) as caught:
        capture(Layer(noisy))
    assert len(caught.value.violations) == 2
    dropout, noise = caught.value.violations
    assert "bernoulli" in dropout
    assert f"at {THIS}:{line_of(noisy, 'dropout')}: h = F.dropout(h, 0.5)" in dropout
    assert "aten.rand.default" in noise
    assert all("Call .eval() on the layer, or draw outside" in text for text in (dropout, noise))


def test_dropout_in_training_mode_is_refused_and_in_eval_mode_nothing():
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    with pytest.raises(
        UnsupportedOp, match=r"textbook.py:\d+: .*# 1: Dropout\) draws random numbers"
    ):
        capture(model)
    capture(model.eval())


# -- operations -----------------------------------------------------------------------------------


def test_all_operations_that_are_missing_are_listed_and_none_that_follow():
    def several(h):
        ordered = torch.sort(h, 1).values
        doubled = torch.cumsum(ordered * 2, 1)
        whole = torch.floor(h)
        return doubled + whole + torch.atan(h)

    with pytest.raises(UnsupportedOp) as caught:
        capture(Layer(several))
    error = caught.value
    assert str(error).startswith(
        "The machine cannot run 3 operations of the step: (1) aten.sort.default"
    )
    names = [text.partition(" ")[0] for text in error.violations]
    assert names == ["aten.sort.default", "aten.floor.default", "aten.atan.default"]
    line = line_of(several, "torch.sort")
    assert f"at {THIS}:{line}: ordered = torch.sort(h, 1).values" in error.violations[0]
    assert "keep the order and weigh the entries" in error.violations[0]
    assert "there is no instruction for it" in error.violations[1]
    assert isinstance(error, icgd.IcgdError)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda h: h.bfloat16().double(), "rounding to torch.bfloat16 loses digits"),
        (lambda h: h.float().double(), "converts torch.float64 to torch.float32"),
        (lambda h: h * h.long(), "converting numbers to torch.int64 cuts digits off"),
        (lambda h: h[torch.argmax(h, 0), torch.argmin(h, 0)].sum() * h, "the index is computed"),
        (lambda h: torch.linalg.inv(h[:, :3] + torch.eye(3, **double)) @ h, "Newton-Schulz"),
    ],
)
def test_what_the_machine_cannot_do_has_a_remedy(function, message):
    with pytest.raises(UnsupportedOp, match=message):
        capture(Layer(function))


def test_a_step_that_tracing_refuses_names_the_line():
    def conditional(x):
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    with pytest.raises(
        AssumptionViolated, match=r"cannot be written as one graph.*: return torch\.cond"
    ):
        capture_function(conditional, (X,))


def test_writing_into_what_is_not_the_models_is_named():
    """A moving average kept elsewhere would stay what it was; as a buffer it moves."""
    torch.manual_seed(0)
    model, average = nn.Linear(4, 4).double(), torch.zeros(4, 4, **double)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train = training_step(model, optimizer, F.mse_loss)

    def step(x, y):
        train(x, y)
        average.view(-1).lerp_(model.weight.detach().view(-1), 0.1)

    message = rf"neither to the model nor to the optimizer, at {THIS}:\d+: average.view.* Make it a buffer"
    with pytest.raises(AssumptionViolated, match=message):
        capture_step(step, model, optimizer, (X, X), fresh=True)


def test_a_mistake_of_the_step_is_pytorchs_own_error(caplog):
    model = nn.Linear(3, 4)
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes"):
        capture(model)


# -- what tracing must not break ------------------------------------------------------------------


def test_fused_attention_is_traced_with_its_true_gradient():
    """The pitfall: forward decomposed, backward not, gradients wrong by percents and no error."""

    def attend(q, k, v):
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return torch.autograd.grad(out.square().sum(), (q, k, v))

    torch.manual_seed(0)
    example = tuple(torch.randn(2, 2, 5, 4, **double) for _ in range(3))

    def of_leaves(q, k, v):
        return attend(*(t.detach().requires_grad_() for t in (q, k, v)))

    captured = capture_function(of_leaves, example)
    results = captured(captured.example)
    for number, gradient in enumerate(of_leaves(*example)):
        assert float((results[f"out.{number}"] - gradient).abs().max()) <= 1e-14


def test_capturing_in_another_default_precision_changes_neither():
    """Counters and constants follow the model; PyTorch's default is left alone."""
    before = torch.get_default_dtype()
    captured = capture(Layer(torch.tanh), torch.optim.NAdam, fresh=False)
    assert torch.get_default_dtype() == before
    states = {n: v for n, v in captured.named_example().items() if n.startswith("state.")}
    assert {value.dtype for value in states.values()} == {torch.float64}
    product = states["state.linear.weight.mu_product"]
    assert float(product) == pytest.approx(0.9 * (1 - 0.5 * 0.96**0.004), rel=1e-15)
