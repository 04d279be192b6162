"""Every complaint about model, optimizer and example names the thing, the value and the remedy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from captured_runs import double
from torch import nn

from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.mechanisms.machine.capture.function import capture_function
from icgd.mechanisms.machine.capture.step import capture_step
from icgd.mechanisms.machine.capture.textbook import training_step

SGD = torch.optim.SGD
X = torch.ones(3, 4, **double)


def refused(model, optimizer=None, example=(X, X), kind=AssumptionViolated, **options):
    optimizer = optimizer or SGD(model.parameters(), lr=0.1)
    step = training_step(model, optimizer, nn.functional.mse_loss)
    with pytest.raises(kind) as caught:
        capture_step(step, model, optimizer, example, fresh=True, **options)
    return str(caught.value)


def linear(dtype=torch.float64):
    return nn.Linear(4, 4).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_have_too_few_digits(dtype):
    message = refused(linear(dtype))
    assert (
        f"parameter `weight` is {str(dtype)[6:]}: too few digits. Convert it with .double()"
        in message
    )
    assert "parameter `bias`" in message


@pytest.mark.filterwarnings("ignore:Complex modules")
def test_complex_numbers():
    message = refused(linear(torch.complex128))
    assert "parameter `weight` is complex (complex128). Use its real and imaginary parts" in message


def test_whole_numbers_have_no_gradients():
    model = linear()
    model.steps = nn.Parameter(torch.ones(2, dtype=torch.int64), requires_grad=False)
    message = refused(model)
    assert (
        "parameter `steps` holds int64: integers have no gradients. Register it as a buffer"
        in message
    )


def test_mixed_precisions():
    message = refused(linear(), example=(X.float(), X))
    assert message == (
        "Precisions are mixed: the machine computes in one, here float64, but example[0] is float32. "
        "Convert model and data with .double(), or both with .float()."
    )


def test_another_device():
    model = linear().to("meta")
    message = refused(model)
    assert (
        "parameter `weight` lives on device meta, the machine on cpu. Move it with .cpu()."
        in message
    )


def test_numbers_that_are_none():
    bad = X.clone()
    bad[1, 2] = float("nan")
    assert refused(linear(), example=(X, bad)) == (
        "example[1] holds nan at (1, 2). Pass finite numbers."
    )
    model = linear()
    model.weight.data[0, 0] = float("inf")
    assert "parameter `weight` holds inf at (0, 0)" in refused(model)


def test_sparse_tensors_and_subclasses():
    assert "layout torch.sparse_coo. Convert it with .to_dense()" in refused(
        linear(), example=(X.to_sparse(), X)
    )


def test_examples():
    assert "example[0] is empty (shape (0, 4))" in refused(linear(), example=(X[:0], X[:0]))
    message = refused(linear(), example=(X, np.ones(3)), kind=InvalidParameter)
    assert "`example[1]` must be a tensor. Got 'ndarray'. Convert numbers and arrays" in message
    for nothing in ((), X, None):
        message = refused(linear(), example=nothing, kind=InvalidParameter)
        assert "`example` must be a tuple with the arguments of one call" in message


def test_examples_that_require_a_gradient():
    message = refused(linear(), example=(X.clone().requires_grad_(), X))
    assert message.startswith("example[0] requires a gradient. Pass it detached; ")


def test_compiled_modules():
    message = refused(torch.compile(linear()))
    assert message == (
        "`model` is compiled by torch.compile. Use the module that it wraps (._orig_mod), in the step too."
    )


def test_schedulers_belong_outside_the_step():
    model = linear()
    optimizer = SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    def step(x, y):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        scheduler.step()

    with pytest.raises(
        AssumptionViolated, match=r"changes `lr` .* group 0 from 0\.1 to 0\.05\. Call the"
    ):
        capture_step(step, model, optimizer, (X, X), fresh=True)
    assert optimizer.param_groups[0]["lr"] == 0.1


def test_optimizers_whose_step_needs_a_closure():
    model = linear()
    message = refused(model, torch.optim.LBFGS(model.parameters()))
    assert message.startswith("LBFGS calls a closure as often as the data want")
    assert "Use an optimizer whose step() needs no closure." in message


def test_parameters_of_another_model():
    message = refused(linear(), SGD(linear().parameters(), lr=0.1))
    assert "group 0 holds parameters of shapes [(4, 4), (4,)] that are not in the model" in message


def test_hyper_parameters_that_are_not_there():
    message = refused(linear(), hyper=("lr", "beta"))
    assert "`hyper` names beta, but SGD has dampening" in message
    model = linear()
    message = refused(model, torch.optim.Adam(model.parameters()), hyper=("betas",))
    assert "`betas` of the optimizer's group 0 is (0.9, 0.999), not a number" in message


def test_flat_is_for_optimizers_that_work_entry_by_entry():
    model = linear()
    muon = torch.optim.Muon([model.weight])
    message = refused(model, muon, kind=InvalidParameter, flat=True)
    assert message.startswith("`flat` must be False for Muon: only SGD")


def test_several_complaints_at_once():
    message = refused(linear(torch.float16), example=(X, X * float("nan")), hyper=("speed",))
    assert message.startswith("4 assumptions are violated:")


def test_things_that_are_no_models():
    model = linear()
    step = training_step(model, SGD(model.parameters(), lr=0.1), nn.functional.mse_loss)
    with pytest.raises(
        InvalidParameter, match=r"`model` must be a torch\.nn\.Module. Got 'function'"
    ):
        capture_step(step, step, None, (X, X), fresh=True)
    with pytest.raises(
        InvalidParameter, match=r"`optimizer` must be a torch\.optim\.Optimizer, or None"
    ):
        capture_step(step, model, "sgd", (X, X), fresh=True)
    with pytest.raises(InvalidParameter, match="`step` must be a function"):
        capture_step(3, model, None, (X, X), fresh=True)
    with pytest.raises(InvalidParameter, match="`function` must be a function of tensors"):
        capture_function(3, (X,))
