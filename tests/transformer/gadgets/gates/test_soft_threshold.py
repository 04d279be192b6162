"""Soft-thresholding and signed copies by ReLU units: exact, and the literal units say the same."""

from __future__ import annotations

import pytest
import torch

from icgd.transformer.gadgets.gates.signed_copy import SignedCopy
from icgd.transformer.gadgets.gates.soft_threshold import SoftThreshold
from icgd.transformer.layout import Layout, Slot
from icgd.transformer.nn.feedforward import FeedForward


@pytest.mark.parametrize("cut", [1e-9, 0.1, 3.0])
def test_the_prox_of_the_l1_norm_is_exact(cut: float) -> None:
    d = 6
    layout = Layout([Slot("next", (d,)), Slot("weight", (d,))])
    prox = SoftThreshold(d, source="next", target="weight", cut=cut, dtype=torch.float64)
    dense = FeedForward(layout, layout, {"prox": prox}).dense()
    generator = torch.Generator().manual_seed(0)
    w = 2 * cut * torch.randn(50, d, generator=generator, dtype=torch.float64)
    w[0], w[1], w[2] = 0.0, cut, -cut  # zero and both corners
    tokens = torch.cat([w, torch.zeros_like(w)], dim=-1)
    got = dense(tokens)[:, d:]
    assert torch.equal(got, torch.nn.functional.softshrink(w, cut))
    # The definition: no point of a fine mesh has a smaller value of cut |v| + (v - w)^2 / 2.
    mesh = torch.linspace(-8 * cut, 8 * cut, 2001, dtype=torch.float64)
    value = cut * got.abs() + (got - w) ** 2 / 2
    others = cut * mesh.abs() + (mesh - w.unsqueeze(-1)) ** 2 / 2
    assert bool((value <= others.amin(dim=-1) + 1e-15).all())


def test_a_layer_without_bias_cannot_do_it() -> None:
    """Positively homogeneous: f(2w) = 2 f(w), which soft-thresholding is not."""
    w = torch.tensor([1.5], dtype=torch.float64)
    prox = torch.nn.functional.softshrink
    assert float(prox(2 * w, 1.0)) != 2 * float(prox(w, 1.0))
    generator = torch.Generator().manual_seed(0)
    W_in = torch.randn(4, 1, generator=generator, dtype=torch.float64)
    W_out = torch.randn(1, 4, generator=generator, dtype=torch.float64)

    def free_of_bias(v: torch.Tensor) -> torch.Tensor:
        return W_out @ torch.relu(W_in @ v)

    assert torch.allclose(free_of_bias(2 * w), 2 * free_of_bias(w))


def test_a_signed_copy_is_exact_for_both_labels() -> None:
    d = 3
    source = Layout([Slot("x", (d,)), Slot("positive", ()), Slot("negative", ())])
    target = Layout([Slot("signed", (d,))])
    copy = SignedCopy(
        d,
        source="x",
        target="signed",
        positive="positive",
        negative="negative",
        capacity=2.0**22,
        dtype=torch.float64,
    )
    dense = FeedForward(source, target, {"signed": copy}).dense()
    generator = torch.Generator().manual_seed(1)
    x = 100 * torch.randn(40, d, generator=generator, dtype=torch.float64)
    y = torch.where(torch.arange(40) % 2 == 0, 1.0, -1.0).double()
    tokens = torch.cat([x, (y > 0).double().unsqueeze(1), (y < 0).double().unsqueeze(1)], dim=1)
    assert torch.equal(dense(tokens), x * y.unsqueeze(1))
