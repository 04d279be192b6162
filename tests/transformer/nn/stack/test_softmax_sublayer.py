"""Softmax heads on named slots, against softmax attention written out."""

from __future__ import annotations

import math

import pytest
import torch

from icgd.transformer.layout import Layout, Slot
from icgd.transformer.nn.stack.softmax_sublayer import (
    SoftmaxHead,
    SoftmaxSublayer,
    linear_rows,
    stacked,
)
from icgd.transformer.nn.stack.spectral_sublayer import SpectralSublayer
from icgd.transformer.nn.stack.stack import unwatched
from icgd.transformer.nn.symbolic import weights_stay_fixed

F64 = torch.float64
EVALUATIONS = ["collapsed", "sparse", "dense"]
LAYOUT = Layout(
    [Slot("a", (3,), each=True), Slot("b", (2,), each=True), Slot("flag", (), each=True)]
)


def tokens(n, seed=0, batch=()):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*batch, n, LAYOUT.width, generator=g, dtype=F64)


def head(seed, target="b", **more):
    g = torch.Generator().manual_seed(seed)
    query, key = (torch.randn(4, LAYOUT.width, generator=g, dtype=F64) for _ in range(2))
    value = torch.randn(2, LAYOUT.width, generator=g, dtype=F64)
    return SoftmaxHead(query, key, value, LAYOUT.index(target), dtype=F64, **more)


def written_out(layer, H, causal):
    """Token by token and head by head."""
    out, n = H.clone(), H.shape[0]
    for made in layer.each():
        Q, K, V = (made.get_parameter(name) for name in ("query", "key", "value"))
        for i in range(n):
            seen = range(i + 1) if causal else range(n)
            scores = [float((Q @ H[i]) @ (K @ H[s])) for s in seen]
            top = max(scores)
            weights = [math.exp(z - top) for z in scores]
            total = sum(weights)
            for s, w in zip(seen, weights, strict=True):
                out[i, made.get_buffer("target")] += w / total * (V @ H[s])
    return out


@pytest.mark.parametrize("evaluation", EVALUATIONS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n", [1, 2, 7])
def test_it_is_softmax_attention(evaluation, causal, n):
    layer = SoftmaxSublayer({"one": head(0), "two": head(1)}, causal=causal)
    H = tokens(n)
    made = getattr(layer, evaluation)(H, unwatched)
    assert float((made - written_out(layer, H, causal)).abs().max()) <= 1e-13


@pytest.mark.parametrize("evaluation", EVALUATIONS)
def test_batches(evaluation):
    layer = SoftmaxSublayer({"one": head(0)})
    H = tokens(5, batch=(2, 3))
    made = getattr(layer, evaluation)(H, unwatched)
    for i in range(2):
        for j in range(3):
            assert float((made[i, j] - written_out(layer, H[i, j], False)).abs().max()) <= 1e-13


@pytest.mark.parametrize("evaluation", EVALUATIONS)
def test_the_input_is_not_overwritten(evaluation):
    layer = SoftmaxSublayer({"one": head(0)})
    H = tokens(4)
    before = H.clone()
    getattr(layer, evaluation)(H, unwatched)
    assert torch.equal(H, before)


@pytest.mark.parametrize("evaluation", EVALUATIONS)
def test_causal_tokens_do_not_see_the_future(evaluation):
    layer = SoftmaxSublayer({"one": head(0)}, causal=True)
    H = tokens(6)
    made = getattr(layer, evaluation)(H, unwatched)
    H[4:] = 100.0
    assert torch.equal(getattr(layer, evaluation)(H, unwatched)[:4], made[:4])


def test_rows_are_sums_of_maps_of_slots():
    matrix = torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]], dtype=F64)
    rows = linear_rows(LAYOUT, [("a", matrix), ("b", -2.0)])
    h = torch.arange(6, dtype=F64)
    assert (rows @ h).tolist() == (matrix @ h[:3] - 2 * h[3:5]).tolist()
    both = stacked(LAYOUT, [[("flag", 1.0)], [("b", 3.0)]])
    assert (both @ h).tolist() == [5.0, 9.0, 12.0]


def test_a_slot_named_twice_adds_up():
    rows = linear_rows(LAYOUT, [("b", 1.0), ("b", 0.5)])
    assert rows[:, LAYOUT.index("b")].tolist() == [[1.5, 0.0], [0.0, 1.5]]


@pytest.mark.parametrize("evaluation", EVALUATIONS)
def test_a_head_of_zeros_adds_the_mean(evaluation):
    """No query, no key: all scores are equal, and every token gets the mean of the values."""
    zero = torch.zeros(1, LAYOUT.width, dtype=F64)
    made = SoftmaxHead(
        zero,
        zero,
        linear_rows(LAYOUT, [("flag", 1.0)]),
        LAYOUT.index("flag").reshape(-1),
        dtype=F64,
    )
    H = tokens(4)
    out = getattr(SoftmaxSublayer({"mean": made}), evaluation)(H, unwatched)
    flag = LAYOUT.slice("flag")
    assert torch.allclose(out[:, flag], H[:, flag] + H[:, flag].mean(), atol=1e-15)


def test_what_was_asked_is_looked_at():
    asked = linear_rows(LAYOUT, [("a", 1.0)])
    layer = SoftmaxSublayer({"one": head(0, watched=(asked, asked, 7.0), label="inner")})
    H, seen = tokens(4), []
    for evaluation in EVALUATIONS:
        getattr(layer, evaluation)(
            H, lambda question, value, reach: seen.append((question.label, value, reach))
        )
    a = H[:, LAYOUT.slice("a")]
    assert len(seen) == 3
    for label, value, reach in seen:
        assert (label, reach) == ("inner", 7.0)
        assert torch.allclose(value, a @ a.T, atol=1e-14)


def test_heads_and_entries_are_counted():
    layer = SoftmaxSublayer({"one": head(0), "two": head(1)})
    counts = layer.counts(LAYOUT.width)
    assert (counts.kind, counts.heads, counts.nonzeros) == ("attention", 2, 2 * 10 * 6)
    assert counts.parameters == 2 * 3 * 6 * 6


def test_altered_weights_are_noticed_and_used():
    layer = SoftmaxSublayer({"one": head(0)})
    (made,) = layer.each()
    assert made.is_plain()
    H = tokens(3)
    before = layer.collapsed(H, unwatched)
    made.get_parameter("value").mul_(2.0)
    assert not made.is_plain()
    for evaluation in EVALUATIONS:
        after = getattr(layer, evaluation)(H, unwatched)
        assert torch.allclose(after - H, 2 * (before - H), atol=1e-13)


@pytest.mark.parametrize("causal", [False, True])
def test_spectral_heads_read_what_their_tokens_say(causal):
    """Any table, also a useless one: softmax over the p tokens of every head, then the sum over heads."""
    g = torch.Generator().manual_seed(0)
    rates, offset, levels = (torch.randn(5, generator=g, dtype=F64) for _ in range(3))
    rows = {"query": linear_rows(LAYOUT, [("a", 1.0)]), "key": linear_rows(LAYOUT, [("a", 0.5)])}
    layer = SpectralSublayer(
        rows["query"],
        rows["key"],
        linear_rows(LAYOUT, [("b", 1.0)]),
        LAYOUT.index("b"),
        rates=rates,
        offset=offset,
        levels=levels,
        scale=2.0,
        radius=1e3,
        dtype=F64,
        causal=causal,
    )
    H = tokens(6)
    s = (H @ rows["query"].T) @ (H @ rows["key"].T).T
    weights = torch.softmax(s.unsqueeze(-1) * rates + offset, dim=-1) @ levels
    weights = weights.tril() if causal else weights
    exact = H.clone()
    exact[:, LAYOUT.index("b")] += 2.0 * weights @ H[:, LAYOUT.index("b")]
    with weights_stay_fixed():
        for evaluation in EVALUATIONS:
            made = getattr(layer, evaluation)(H, unwatched)
            assert float((made - exact).abs().max()) <= 1e-12
