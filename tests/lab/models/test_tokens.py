"""Layouts: what a token holds, which of them are asked, and what is refused."""

from __future__ import annotations

import pytest
import torch
from model_cases import LAYOUTS, make, predict, prompts

from icgd.errors import InvalidParameter
from icgd.lab.tasks.batch import Batch


@pytest.mark.parametrize(("d_x", "d_y"), [(3, 2), (1, 1), (2, 4)])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_interleaved_tokens_are_x_and_y_in_turn(d_x, d_y, n):
    model = make(d_x=d_x, d_y=d_y)
    batch = prompts(model, n=n)
    tokens = model.prompt.tokens(batch.xs, batch.ys)
    assert tokens.shape == (3, 2 * n - 1, max(d_x, d_y))
    for i in range(n):
        assert torch.equal(tokens[:, 2 * i, :d_x], batch.xs[:, i])
        assert not tokens[:, 2 * i, d_x:].any()
        if i < n - 1:
            assert torch.equal(tokens[:, 2 * i + 1, :d_y], batch.ys[:, i])
            assert not tokens[:, 2 * i + 1, d_y:].any()


@pytest.mark.parametrize("n", [1, 2, 5])
def test_concatenated_tokens_are_pairs_and_the_last_one_asks(n):
    model = make(layout="concatenated")
    batch = prompts(model, n=n)
    tokens = model.prompt.tokens(batch.xs, batch.ys)
    assert torch.equal(tokens[..., :3], batch.xs)
    assert torch.equal(tokens[:, :-1, 3:5], batch.ys[:, :-1])
    assert not tokens[:, -1, 3:].any()
    assert (tokens[:, :-1, 5] == 1).all()


def test_series_tokens_are_the_series():
    model = make(layout="series")
    batch = prompts(model)
    assert model.prompt.tokens(batch.xs, batch.ys) is batch.xs
    other = Batch(batch.xs, torch.randn_like(batch.ys), "series")
    assert torch.equal(predict(model, batch), predict(model, other)), "targets are not read"


def test_the_concatenated_layout_says_nothing_where_it_is_not_asked():
    model = make(layout="concatenated", spread=0.2)
    batch = prompts(model)
    found = predict(model, batch)
    assert not found[:, :-1].any()
    assert found[:, -1].all()
    assert model.loss(batch).item() == pytest.approx(
        float((found[:, -1] - batch.ys[:, -1]).square().mean()), rel=1e-12
    )


def test_every_position_of_the_concatenated_layout_is_asked_by_its_own_prompt():
    model = make(layout="concatenated", spread=0.2)
    batch = prompts(model)
    found = model.every_position(batch.xs, batch.ys)
    for n in range(1, 7):
        ending = Batch(batch.xs[:, :n], batch.ys[:, :n])
        assert torch.equal(found[:, n - 1], predict(model, ending)[:, -1])


@pytest.mark.parametrize("layout", ["interleaved", "series"])
def test_every_position_is_otherwise_the_prediction(layout):
    model = make(layout=layout)
    batch = prompts(model)
    assert torch.equal(model.every_position(batch.xs, batch.ys, batch.kind), predict(model, batch))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_only_counted_positions_enter_the_loss(layout):
    model = make(layout=layout, spread=0.2)
    counted = torch.tensor([False, True, False, False, True, True])
    batch = prompts(model, counted=counted)
    found = predict(model, batch)
    asked = counted & (torch.arange(6) == 5) if layout == "concatenated" else counted
    wanted = (found - batch.ys).square()[:, asked].mean()
    assert model.loss(batch).item() == pytest.approx(float(wanted), rel=1e-12)


def test_a_loss_without_the_only_position_asked_is_refused():
    model = make(layout="concatenated")
    counted = torch.tensor([True] * 5 + [False])
    with pytest.raises(InvalidParameter, match="hold the last position for layout='concatenated'"):
        model.loss(prompts(model, counted=counted))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_prompts_that_do_not_fit_are_refused(layout):
    model = make(layout=layout)
    batch = prompts(model)
    other = "pairs" if layout == "series" else "series"
    with pytest.raises(InvalidParameter, match=f"for a model with layout='{layout}'"):
        model(batch.xs, batch.ys, other)
    with pytest.raises(InvalidParameter, match=r"have 1 to 9 points. .* larger n_positions"):
        predict(model, prompts(model, n=10))
    with pytest.raises(InvalidParameter, match="have 1 to 9 points"):
        predict(model, prompts(model, n=0))
    for xs, ys, name in (
        (batch.xs[..., :2], batch.ys, "xs"),
        (batch.xs, batch.ys[..., :1], "ys"),
        (batch.xs, batch.ys[:, :3], "ys"),
        (batch.xs[0], batch.ys[0], "xs"),
    ):
        with pytest.raises(InvalidParameter, match=f"`{name}` must have the shape"):
            model(xs, ys, batch.kind)


def test_widths_below_one_are_refused():
    with pytest.raises(InvalidParameter, match="`d_y` must be >= 1"):
        make(d_y=0)
