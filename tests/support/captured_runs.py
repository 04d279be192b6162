"""Captured graphs run for several steps beside eager PyTorch."""

from __future__ import annotations

import copy

import torch
from torch.utils import _pytree as pytree

from icgd.mechanisms.machine.capture.function import capture_function
from icgd.mechanisms.machine.capture.step import capture_step
from icgd.mechanisms.machine.capture.textbook import training_step

double = {"dtype": torch.float64}


def textbook(loss):
    """A maker of textbook steps, for `largest_gap`."""
    return lambda model, optimizer: training_step(model, optimizer, loss)


def hypers(optimizer, keys=("lr",)):
    return {
        f"hyper.{i}.{key}": torch.tensor(float(group[key]), **double)
        for i, group in enumerate(optimizer.param_groups)
        for key in keys
    }


def largest_gap(make_step, model, optimizer, batches, *, flat=False, lrs=None):
    """Largest difference of a parameter or buffer over the run: captured graphs against eager PyTorch.

    make_step  of (model, optimizer): the step over these two objects
    batches    arguments of the steps, one after the other; the first one is the example
    lrs        learning rates of the steps, if a schedule changes them
    """
    step = make_step(model, optimizer)
    first = capture_step(step, model, optimizer, batches[0], fresh=True, flat=flat)
    later = capture_step(step, model, optimizer, batches[0], fresh=False, flat=flat)
    eager_model, eager_optimizer = copy.deepcopy((model, optimizer))
    eager_step = make_step(eager_model, eager_optimizer)
    values, gap = first.named_example(), 0.0
    for number, batch in enumerate(batches):
        if lrs is not None:
            for group in eager_optimizer.param_groups:
                group["lr"] = lrs[number]
        captured = first if number == 0 else later
        data = {f"data.{i}": value for i, value in enumerate(batch)}
        values = captured({**values, **hypers(eager_optimizer), **data})
        eager_step(*batch)
        after = {f"param.{n}": p for n, p in eager_model.named_parameters()}
        after |= {f"buffer.{n}": b for n, b in eager_model.named_buffers()}
        gap = max(gap, *(float((values[n] - v).detach().abs().max()) for n, v in after.items()))
    return gap


def function_gap(function, *example):
    """Largest difference of a captured function from the function, entry by entry, in units of max(1, size)."""
    captured = capture_function(function, example)
    results = list(captured(captured.example).values())
    expected = [t.detach() for t in pytree.tree_leaves(function(*example))]
    assert [r.shape for r in results] == [e.shape for e in expected]
    return max(
        float(((r - e).abs() / e.abs().clamp(min=1)).max())
        for r, e in zip(results, expected, strict=True)
    )


def slope(function):
    """The gradient of the sum of a function, as a function."""

    def gradient(x):
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            return torch.autograd.grad(function(leaf).sum(), leaf)[0]

    return gradient
