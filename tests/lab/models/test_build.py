"""Laws of every model: causality, iterates and loss, shared weights, gradients, and small sizes."""

from __future__ import annotations

import itertools

import pytest
import torch
from model_cases import ATTENTIONS, KINDS, LAYOUTS, make, predict, prompts

from icgd.errors import InvalidParameter
from icgd.lab.models.build import build_model
from icgd.lab.models.config import ModelConfig
from icgd.lab.tasks.batch import Batch

every_kind = pytest.mark.parametrize("kind", KINDS)


# -- causality ------------------------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("layout", ["interleaved", "series"])
def test_what_comes_later_changes_no_prediction(kind, attention, layout):
    model = make(**KINDS[kind], attention=attention, layout=layout, spread=0.2)
    batch = prompts(model, n=7)
    before = predict(model, batch)
    for i in (0, 3, 6):
        xs, ys = batch.xs.clone(), batch.ys.clone()
        xs[:, i + 1 :], ys[:, i:] = 50.0, -50.0
        after = predict(model, Batch(xs, ys, batch.kind))
        assert torch.equal(after[:, : i + 1], before[:, : i + 1])


@every_kind
def test_what_comes_earlier_does_change_predictions(kind):
    model = make(**KINDS[kind], spread=0.2)
    batch = prompts(model, n=7)
    ys = batch.ys.clone()
    ys[:, 2] += 1.0
    changed = (predict(model, Batch(batch.xs, ys)) != predict(model, batch)).all(dim=-1)
    assert not changed[:, :3].any()
    assert changed[:, 3:].all()


@every_kind
def test_a_prefix_has_the_prefix_of_the_predictions(kind):
    model = make(**KINDS[kind], spread=0.2)
    batch = prompts(model, n=7)
    whole = predict(model, batch)
    for n in (1, 4):
        part = predict(model, Batch(batch.xs[:, :n], batch.ys[:, :n]))
        assert float((part - whole[:, :n]).abs().max()) <= 1e-12


@every_kind
def test_the_concatenated_layout_reads_every_pair_and_not_its_own_answer(kind):
    model = make(**KINDS[kind], layout="concatenated", spread=0.2)
    batch = prompts(model)
    before = predict(model, batch)[:, -1]
    for i in range(6):
        ys = batch.ys.clone()
        ys[:, i] += 1.0
        after = predict(model, Batch(batch.xs, ys))[:, -1]
        assert torch.equal(after, before) if i == 5 else bool((after != before).all())


# -- heads ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attention", ["softmax", "relu"])
def test_the_number_of_heads_changes_the_function(attention):
    models = [make(n_head=n, attention=attention, spread=0.3, seed=4) for n in (1, 2, 4, 8)]
    for model in models[1:]:
        model.load_state_dict(models[0].state_dict())
    found = [predict(model, prompts(model)) for model in models]
    for a, b in itertools.combinations(found, 2):
        assert float((a - b).abs().max()) > 1e-3


@pytest.mark.parametrize("n_head", [1, 2, 4])
def test_relu_attention_is_the_mean_over_visible_tokens_head_by_head(n_head):
    """The attention part of a block against loops over heads, queries and tokens."""
    model = make(n_head=n_head, attention="relu", spread=0.3)
    block = model.stack.blocks[0]
    h = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with torch.no_grad():
        found = block._attend(h)
        q, k, v = (block.norm_1(h) @ block.W_QKV + block.b_QKV).split(8, dim=-1)
    width = 8 // n_head
    for b, head, i in itertools.product(range(2), range(n_head), range(5)):
        at = slice(head * width, (head + 1) * width)
        total = torch.zeros(width, dtype=torch.float64)
        for j in range(i + 1):
            score = float(q[b, i, at] @ k[b, j, at]) / width**0.5
            total += max(score, 0.0) * v[b, j, at]
        assert float((found[b, i, at] - total / (i + 1)).abs().max()) <= 1e-12


# -- loops ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["looped", "algoformer"])
@pytest.mark.parametrize(("loops", "window"), [(1, 0), (1, 5), (4, 0), (4, 2), (4, 3), (4, 9)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_loss_is_the_mean_over_the_last_iterates(kind, loops, window, layout):
    model = make(kind=kind, loops=loops, window=window, layout=layout, spread=0.2)
    batch = prompts(model)
    first = max(loops - window, 1)
    asked = slice(-1, None) if layout == "concatenated" else slice(None)
    by_hand = [
        float((predict(model, batch, loops=t) - batch.ys)[:, asked].square().mean())
        for t in range(first, loops + 1)
    ]
    assert model.loss(batch).item() == pytest.approx(sum(by_hand) / len(by_hand), rel=1e-12)
    iterates = model.iterates(batch.xs, batch.ys, batch.kind)
    assert len(iterates) == loops - first + 1
    for t, made in enumerate(iterates, first):
        assert float((made.detach() - predict(model, batch, loops=t)).abs().max()) <= 1e-12
    assert len(model.iterates(batch.xs, batch.ys, batch.kind, loops=7, window=6)) == 7


@pytest.mark.parametrize("inject", [True, False])
@pytest.mark.parametrize("layer_norm", [True, False])
def test_one_loop_is_the_standard_model(inject, layer_norm):
    settings = {"n_layer": 2, "layer_norm": layer_norm}
    standard = make(**settings, spread=0.2)
    looped = make(kind="looped", inject=inject, **settings)
    looped.load_state_dict(standard.state_dict())
    batch = prompts(standard)
    assert torch.equal(predict(looped, batch), predict(standard, batch))


@pytest.mark.parametrize("inject", [True, False])
def test_loops_are_the_recurrence_written_out(inject):
    looped = make(kind="looped", loops=3, inject=inject, n_layer=2, spread=0.2)
    algo = make(kind="algoformer", loops=3, inject=inject, n_layer=2, n_pre=1, spread=0.2)
    for model in (looped, algo):
        batch = prompts(model)
        with torch.no_grad():
            P = model.prompt(batch.xs, batch.ys, "pairs")
            stack = model.stack if model is looped else model.loop
            P = P if model is looped else model.pre(P)
            h = torch.zeros_like(P) if inject else P
            for _ in range(3):
                h = stack(h + P) if inject else stack(h)
            h = h if model is looped else model.post(h)
            wanted = model.read_out(h)[:, ::2]
        assert float((predict(model, batch) - wanted).abs().max()) <= 1e-12


def test_truncation_cuts_gradients_and_nothing_else():
    settings = {"kind": "looped", "loops": 5, "window": 1, "spread": 0.2}
    whole, cut = make(**settings), make(**settings, truncate=True)
    batch = prompts(whole)
    losses = [model.loss(batch) for model in (whole, cut)]
    assert torch.equal(*losses)
    for loss in losses:
        loss.backward()
    gradients = [model.stack.blocks[0].W_in.grad for model in (whole, cut)]
    assert float((gradients[0] - gradients[1]).abs().max()) > 1e-6
    # Iterations 4 and 5 alone, from a state that is a constant.
    with torch.no_grad():
        P = cut.prompt(batch.xs, batch.ys, "pairs")
        h = torch.zeros_like(P)
        for _ in range(3):
            h = cut.stack(h + P)
    by_hand = make(**settings)
    P = by_hand.prompt(batch.xs, batch.ys, "pairs")
    fourth = by_hand.stack(h + P)
    answers = [by_hand.read_out(s)[:, ::2] for s in (fourth, by_hand.stack(fourth + P))]
    (sum((a - batch.ys).square().mean() for a in answers) / 2).backward()
    wanted = by_hand.stack.blocks[0].W_in.grad
    assert float((gradients[1] - wanted).abs().max()) <= 1e-12


@pytest.mark.parametrize("kind", ["looped", "algoformer"])
def test_loops_that_cannot_be_are_refused(kind):
    model = make(kind=kind)
    batch = prompts(model)
    with pytest.raises(InvalidParameter, match=r"`loops` must be >= 1. Got 0."):
        predict(model, batch, loops=0)
    with pytest.raises(InvalidParameter, match="`window` must be >= 0"):
        model.iterates(batch.xs, batch.ys, window=-1)
    with pytest.raises(InvalidParameter, match="`loops` must be 1 for a standard model"):
        predict(make(), batch, loops=2)


# -- weights --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("layer_norm", [True, False])
def test_parameters_are_counted_in_closed_form_and_loops_add_none(layout, layer_norm):
    d, hidden, d_x, d_y, n = 12, 20, 3, 2, 7
    block = d * 3 * d + 3 * d + d * d + d + 2 * d * hidden + hidden + d + 4 * d * layer_norm
    d_token = {"interleaved": max(d_x, d_y), "concatenated": d_x + d_y + 1, "series": d_x}[layout]
    tokens = 2 * n if layout == "interleaved" else n
    ends = (d_token + 1) * d + tokens * d + (d + 1) * d_y
    for loops in (1, 2, 5):
        cases = {
            "looped": ({"n_layer": 2}, 2, 1),
            "algoformer": ({"n_layer": 3, "n_pre": 1, "n_post": 2}, 6, 3),
        }
        if loops == 1:
            cases["standard"] = ({"n_layer": 4}, 4, 1)
        for kind, (settings, n_blocks, n_stacks) in cases.items():
            model = make(
                kind=kind,
                loops=loops,
                n_embd=d,
                n_head=3,
                d_mlp=hidden,
                n_positions=n,
                layout=layout,
                layer_norm=layer_norm,
                **settings,
            )
            count = sum(p.numel() for p in model.parameters())
            assert count == ends + n_blocks * block + n_stacks * 2 * d * layer_norm


def test_initial_weights_are_gpt2s_and_follow_the_generator():
    settings = {"n_layer": 8, "n_embd": 64, "n_head": 4, "n_positions": 50}
    model, again, other = (make(**settings, seed=seed) for seed in (0, 0, 1))
    state = model.state_dict()
    assert all(torch.equal(state[name], weight) for name, weight in again.state_dict().items())
    assert not torch.equal(state["prompt.positions"], other.state_dict()["prompt.positions"])
    for name, weight in state.items():
        std = float(weight.std())
        if name.endswith(("W_O", "W_out")):
            assert std == pytest.approx(0.02 / 4, rel=0.1)
        elif name.endswith(("W_QKV", "W_in", "positions")):
            assert std == pytest.approx(0.02, rel=0.1)
        elif ".b_" in name or name.endswith("norm.bias"):
            assert not weight.any()
    bound = 3**-0.5
    assert 0.8 * bound < float(state["prompt.read_in.weight"].abs().max()) <= bound


def test_without_a_generator_the_global_seed_decides():
    config = ModelConfig(n_embd=4)
    made = []
    for _ in range(2):
        torch.manual_seed(5)
        made.append(build_model(config, 2, 1).state_dict())
    assert all(torch.equal(made[0][name], made[1][name]) for name in made[0])


# -- gradients and small sizes --------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("layer_norm", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_are_finite_and_reach_every_weight(kind, attention, layer_norm, layout):
    model = make(
        **KINDS[kind], attention=attention, layer_norm=layer_norm, layout=layout, spread=0.1
    )
    model.loss(prompts(model)).backward()
    for name, p in model.named_parameters():
        assert p.grad is not None, name
        assert torch.isfinite(p.grad).all(), name
        assert p.grad.any(), name


@every_kind
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_gradients_are_those_of_differences(kind, attention):
    model = make(**KINDS[kind], attention=attention, n_embd=4, spread=0.3, seed=2)
    batch = prompts(model, n=3, n_batch=2)
    model.loss(batch).backward()
    generator = torch.Generator().manual_seed(0)
    steps = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in model.parameters()]
    slope = sum(float((p.grad * s).sum()) for p, s in zip(model.parameters(), steps, strict=True))
    losses = []
    for size in (1e-6, -2e-6):
        with torch.no_grad():
            for p, s in zip(model.parameters(), steps, strict=True):
                p += size * s
            losses.append(model.loss(batch).item())
    assert (losses[0] - losses[1]) / 2e-6 == pytest.approx(slope, rel=1e-5, abs=1e-6)


@every_kind
@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_of_everything(kind, attention, layout):
    """One point, one head, width 1, one prompt, scalars in and out."""
    model = make(
        **KINDS[kind],
        attention=attention,
        layout=layout,
        n_head=1,
        n_embd=1,
        d_mlp=1,
        n_positions=1,
        d_x=1,
        d_y=1,
        spread=0.1,
    )
    batch = prompts(model, n=1, n_batch=1)
    assert predict(model, batch).shape == (1, 1, 1)
    loss = model.loss(batch)
    loss.backward()
    assert torch.isfinite(loss)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_model_learns_something(layout):
    model = make(n_layer=1, n_embd=16, layout=layout, d_x=2, d_y=1, attention="relu").float()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(0)
    losses = []
    for _ in range(120):
        xs = torch.randn(32, 5, 2, generator=generator)
        batch = Batch(xs, xs.sum(dim=-1, keepdim=True), "series" if layout == "series" else "pairs")
        optimizer.zero_grad()
        loss = model.loss(batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-10:]) < 0.2 * sum(losses[:10])
