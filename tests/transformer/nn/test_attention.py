"""The one attention kernel against PyTorch's own and against loops written out."""

from __future__ import annotations

import jaxtyping
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.transformer.nn.attention import attention

EPS = torch.finfo(torch.float64).eps

sizes = st.tuples(*[st.integers(1, 6)] * 4)
batches = st.sampled_from([(), (3,), (2, 3)])
seeds = st.integers(0, 2**32)


def random_operands(size, batch, seed):
    n_query, n_token, d_key, d_value = size
    g = torch.Generator().manual_seed(seed)
    q = torch.randn(*batch, n_query, d_key, generator=g, dtype=torch.float64)
    k = torch.randn(*batch, n_token, d_key, generator=g, dtype=torch.float64)
    v = torch.randn(*batch, n_token, d_value, generator=g, dtype=torch.float64)
    mask = torch.rand(*batch, n_query, n_token, generator=g) < 0.6
    mask[..., torch.arange(n_query), torch.arange(n_query) % n_token] = True
    return q, k, v, mask


def rounding(q, k, v):
    """What two orders of summation may differ by: scores, weights and the sum over tokens."""
    scores = 1 + float((q.abs() @ k.abs().mT).max())
    return 4 * EPS * (k.shape[-2] + q.shape[-1] * scores) * scores * (1 + float(v.abs().max()))


def loop(q, k, v, mask, function):
    """sum over visible tokens of f(q.k) v / number of visible tokens, one query at a time."""
    out = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for where in torch.cartesian_prod(*[torch.arange(n) for n in q.shape[:-1]]).reshape(
        -1, q.dim() - 1
    ):
        *batch, i = where.tolist()
        at = tuple(batch)
        visible = [j for j in range(k.shape[-2]) if mask is None or mask[(*at, i, j)]]
        for j in visible:
            score = (q[(*at, i)] * k[(*at, j)]).sum()
            out[(*at, i)] += function(score) * v[(*at, j)] / len(visible)
    return out


@given(sizes, batches, seeds, st.booleans())
def test_softmax_is_pytorchs_attention_without_the_root(size, batch, seed, masked):
    q, k, v, mask = random_operands(size, batch, seed)
    mask = mask if masked else None
    ours = attention(q, k, v, mask=mask)
    theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=1.0)
    assert float((ours - theirs).abs().max()) <= rounding(q, k, v)


@given(sizes, batches, seeds, st.booleans(), st.sampled_from(["relu", "linear", torch.tanh]))
def test_other_kinds_are_the_loop_they_stand_for(size, batch, seed, masked, kind):
    q, k, v, mask = random_operands(size, batch, seed)
    mask = mask if masked else None
    function = {"relu": torch.relu, "linear": lambda s: s}.get(kind, kind)
    ours = attention(q, k, v, mask=mask, kind=kind)
    assert float((ours - loop(q, k, v, mask, function)).abs().max()) <= rounding(q, k, v)


@given(sizes, seeds)
def test_softmax_is_the_loop_too(size, seed):
    q, k, v, mask = random_operands(size, (), seed)
    weight = loop(q, k, torch.ones_like(v[:, :1]), mask, torch.exp)
    mean = loop(q, k, v, mask, torch.exp) / weight
    assert float((attention(q, k, v, mask=mask) - mean).abs().max()) <= rounding(q, k, v)


@pytest.mark.parametrize("kind", ["softmax", "relu", "linear", torch.tanh])
def test_a_hidden_token_cannot_be_noticed(kind):
    """Whatever stands behind the mask, even a huge number, the output is the same to the bit."""
    q, k, v, mask = random_operands((4, 5, 2, 3), (), 0)
    mask[:, 3] = False
    before = attention(q, k, v, mask=mask, kind=kind)
    k[3], v[3] = 1e30, -1e30
    assert torch.equal(attention(q, k, v, mask=mask, kind=kind), before)


@pytest.mark.parametrize("kind", ["softmax", "relu", "linear"])
def test_a_causal_mask_lets_no_query_see_the_future(kind):
    q, k, v, _ = random_operands((5, 5, 3, 2), (2,), 1)
    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    whole = attention(q, k, v, mask=causal.expand(2, 5, 5), kind=kind)
    for n in range(1, 6):
        prefix = attention(
            q[:, :n], k[:, :n], v[:, :n], mask=causal[:n, :n].expand(2, n, n), kind=kind
        )
        assert float((whole[:, :n] - prefix).abs().max()) <= rounding(q, k, v)
    assert torch.equal(attention(q, k, v, mask=causal.unsqueeze(0), kind=kind), whole), (
        "one mask serves the whole batch"
    )


@pytest.mark.parametrize("kind", ["softmax", "relu", "linear", torch.tanh])
def test_a_query_that_sees_nothing_is_an_error_that_names_the_row(kind):
    q, k, v, mask = random_operands((4, 3, 2, 2), (2,), 2)
    mask[1, 2] = False
    with pytest.raises(AssumptionViolated, match=r"Query row \(1, 2\) of the attention mask"):
        attention(q, k, v, mask=mask, kind=kind)


def test_all_true_is_no_mask():
    q, k, v, _ = random_operands((4, 3, 2, 2), (), 3)
    for kind in ("softmax", "relu", "linear"):
        everything = torch.ones(4, 3, dtype=torch.bool)
        assert torch.equal(
            attention(q, k, v, mask=everything, kind=kind), attention(q, k, v, kind=kind)
        )


def test_large_scores_do_not_overflow():
    q = torch.tensor([[1e4]], dtype=torch.float64)
    k = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    v = torch.tensor([[3.0], [5.0]], dtype=torch.float64)
    assert attention(q, k, v).tolist() == [[3.0]]


def test_an_unknown_kind_is_named():
    q, k, v, _ = random_operands((1, 1, 1, 1), (), 0)
    with pytest.raises((InvalidParameter, jaxtyping.TypeCheckError), match="kind"):
        attention(q, k, v, kind="cosine")


def test_shapes_are_checked_under_pytest():
    """The import hook of conftest.py is at work: a key of the wrong width does not get through."""
    q, k, v, _ = random_operands((2, 3, 2, 2), (), 0)
    with pytest.raises(jaxtyping.TypeCheckError):
        attention(q, k[:, :1], v)


@given(sizes, batches, seeds, st.sampled_from(["softmax", "relu", "linear", torch.tanh]))
def test_causal_is_the_explicit_mask(size, batch, seed, kind):
    n, _, d_key, d_value = size
    q, k, v, _ = random_operands((n, n, d_key, d_value), batch, seed)
    lower = torch.ones(n, n, dtype=torch.bool).tril().expand(*batch, n, n)
    masked = attention(q, k, v, mask=lower, kind=kind)
    found = attention(q, k, v, kind=kind, causal=True)
    assert float((found - masked).abs().max()) <= min(1e-12, rounding(q, k, v))


@pytest.mark.parametrize("kind", ["softmax", "relu", "linear", torch.tanh])
@pytest.mark.parametrize("n", [1, 2, 17, 90])
def test_causal_lets_no_query_see_the_future_to_the_bit(kind, n):
    q, k, v, _ = random_operands((n, n, 4, 3), (2, 3), n)
    before = attention(q, k, v, kind=kind, causal=True)
    for i in {0, n // 2, n - 1}:
        later = [t.clone() for t in (q, k, v)]
        for t in later:
            t[..., i + 1 :, :] = 1e3
        after = attention(*later, kind=kind, causal=True)
        assert torch.equal(after[..., : i + 1, :], before[..., : i + 1, :])


@pytest.mark.parametrize("kind", ["softmax", "relu", "linear"])
def test_causal_gradients_are_those_of_the_mask(kind):
    q, k, v, _ = random_operands((7, 7, 4, 4), (2, 3), 5)
    lower = torch.ones(7, 7, dtype=torch.bool).tril()
    found = []
    for seen in ({"causal": True}, {"mask": lower.expand(2, 3, 7, 7)}):
        operands = [t.clone().requires_grad_() for t in (q, k, v)]
        attention(*operands, kind=kind, **seen).square().sum().backward()
        found.append([t.grad for t in operands])
    for ours, masked in zip(*found, strict=True):
        assert float((ours - masked).abs().max()) <= 1e-12 * (1 + float(masked.abs().max()))


def test_causal_asks_for_as_many_queries_as_tokens_and_no_mask():
    q, k, v, mask = random_operands((2, 3, 2, 2), (), 0)
    with pytest.raises(InvalidParameter, match="as many queries as tokens \\(2 and 3\\)"):
        attention(q, k, v, causal=True)
    with pytest.raises(InvalidParameter, match=r"`mask` must be None if causal=True"):
        attention(q, k, v, mask=mask, causal=True)
    with pytest.raises((InvalidParameter, jaxtyping.TypeCheckError), match="kind"):
        attention(k, k, v, kind="cosine", causal=True)
