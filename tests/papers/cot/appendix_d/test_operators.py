"""Operators of one layer: what they can express, what attention over equal columns cannot, what they learn."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from icgd.papers.cot.appendix_d.blocks import (
    backward_layout,
    exact_chain,
    forward_layout,
    random_students,
)
from icgd.papers.cot.appendix_d.operators import (
    OperatorFit,
    PlainBlock,
    ProductBlock,
    block_errors,
    mean_errors,
)
from icgd.papers.cot.appendix_d.runs import active_width, train_operators

LR = 0.05
WIDTHS = [1, 2, 4]


def chain(d, count=20, seed=0):
    return exact_chain(random_students(count, d, 2, 3, LR, torch.Generator().manual_seed(seed)))


def zeroed(block):
    for parameter in block.parameters():
        if parameter.requires_grad:  # the grid is not learned
            torch.nn.init.zeros_(parameter)
    block = block.double()
    block.scale[block.scale != 1] = LR  # not the nearest number of 32 bits
    return block


def entries(layout, name):
    return layout.index(name).reshape(-1)


@torch.no_grad()
def backward_by_hand(d, radius=0.0):
    """d heads of one key: g_r sigma'_r times (e_r; row r of W; o_{i-1} into row r of the step)."""
    block = zeroed(
        ProductBlock(d, "backward", heads=d, keys=1, hidden=0, copies=True, scale=LR, radius=radius)
    )
    B, F = backward_layout(d), forward_layout(d)
    rows = {
        name: torch.searchsorted(block.learned, entries(B, name))
        for name in ("delta", "signal", "weight")
    }
    value = block.v.weight.view(d, len(block.learned), -1)
    for r in range(d):
        block.qk.weight[r, entries(B, "signal")[r]] = 1.0
        block.qk.weight[d + r, B.width + entries(F, "slope")[r]] = 1.0
        block.v.bias.view(d, -1)[r, rows["delta"][r]] = 1.0
        for c in range(d):
            value[r, rows["signal"][c], B.width + entries(F, "weight")[r * d + c]] = 1.0
            value[r, rows["weight"][r * d + c], B.width + entries(F, "input")[c]] = -1.0
    return block


@torch.no_grad()
def forward_by_hand(d, tau=1e-9):
    """d heads of d keys: z = W o; then relu(z) = z + relu(-z), and a steep ramp for the slope."""
    block = zeroed(
        ProductBlock(d, "forward", heads=d, keys=d, hidden=3 * d, copies=True, scale=1.0)
    )
    B, F = backward_layout(d), forward_layout(d)
    for r in range(d):
        for c in range(d):
            block.qk.weight[r * d + c, F.width + entries(B, "weight")[r * d + c]] = 1.0
            block.qk.weight[d * d + r * d + c, entries(F, "output")[c]] = 1.0
        block.v.bias.view(d, -1)[r, r] = 1.0
        for unit, (slope, bias) in enumerate(((-1.0, 0.0), (1 / tau, 0.0), (1 / tau, -1.0))):
            block.up.weight[unit * d + r, r] = slope
            block.up.bias[unit * d + r] = bias
        block.down.weight[r, r] = 1.0
        block.down.weight[d + r, d + r], block.down.weight[d + r, 2 * d + r] = 1.0, -1.0
    return block


@pytest.mark.parametrize("d", WIDTHS)
def test_one_layer_of_products_holds_both_operators_exactly(d):
    made = chain(d)
    assert float(mean_errors(backward_by_hand(d), made.backward_pairs(), d).sum()) < 1e-28
    assert float(mean_errors(forward_by_hand(d), made.forward_pairs(), d).sum()) < 1e-26


@pytest.mark.parametrize("d", WIDTHS)
def test_softmax_heads_over_the_grid_multiply_as_well(d):
    """Scores up to the radius: the same operator within what 32 bits of the grid allow."""
    seen, written = chain(d).backward_pairs()
    off = float(mean_errors(backward_by_hand(d, radius=16.0), (seen, written), d).sum())
    assert 0 < off < 1e-6


@pytest.mark.parametrize("d", WIDTHS)
def test_attention_over_equal_columns_is_that_over_one(d):
    torch.manual_seed(0)
    told = {"width": 16, "heads": 4, "hidden": 8, "normalised": True}
    many, one = PlainBlock(d, **told, positions=True), PlainBlock(d, **told, positions=False)
    torch.nn.init.zeros_(many.positions)
    one.load_state_dict({k: v for k, v in many.state_dict().items() if k != "positions"})
    seen = torch.randn(7, 2 * forward_layout(d).width)
    columns = many(seen)
    assert columns.shape[1] == d
    torch.testing.assert_close(columns, one(seen).expand_as(columns))


def test_attention_over_equal_columns_is_affine():
    """All that is not affine in the plain block is its feed-forward part."""
    torch.manual_seed(0)
    block = PlainBlock(3, width=16, heads=4, hidden=8, normalised=False, positions=False)
    torch.nn.init.zeros_(block.layer.down.weight)
    a, b = (torch.randn(1, 2 * forward_layout(3).width) for _ in range(2))
    between = block(0.3 * a + 0.7 * b)
    torch.testing.assert_close(between, 0.3 * block(a) + 0.7 * block(b))


def test_errors_are_squared_frobenius_norms_of_blocks():
    d, rows = 3, 1 + 3 * 3 + 9
    written, exact = torch.randn(4, d, rows), torch.randn(4, rows)
    by_hand = torch.stack(
        [
            torch.linalg.matrix_norm(w - e.expand(d, -1)) ** 2
            for w, e in zip(written, exact, strict=True)
        ]
    )
    torch.testing.assert_close(block_errors(written, exact, d).sum(1), by_hand)
    # One column stands for d equal ones.
    same = written[:, :1].expand(-1, d, -1)
    torch.testing.assert_close(block_errors(written[:, :1], exact, d), block_errors(same, exact, d))


@pytest.mark.parametrize("copies", [True, False])
def test_what_is_carried_is_copied_or_has_to_be_learned(copies):
    torch.manual_seed(0)
    seen, written = (t.float() for t in chain(3).forward_pairs())
    block = ProductBlock(3, "forward", heads=2, keys=2, hidden=4, copies=copies, scale=1.0)
    F = forward_layout(3)
    off = block_errors(block(seen), written, 3)
    for name in ("input", "weight", "one"):
        assert (float(off[:, F.slice(name)].detach().max()) < 1e-12) is copies


def test_the_backward_operator_is_learned():
    torch.manual_seed(0)
    d, made, other = 2, chain(2, 200), chain(2, 40, seed=1)
    block = ProductBlock(d, "backward", heads=6, keys=2, hidden=0, copies=True, scale=LR)
    train, test = (tuple(t.float() for t in c.backward_pairs()) for c in (made, other))
    rows = entries(backward_layout(d), "weight")
    before = mean_errors(block, test, d)
    fit = OperatorFit(
        block,
        test,
        d=d,
        weight_rows=rows,
        weight_scale=LR,
        epochs=200,
        batch=128,
        rate=2e-2,
        generator=torch.Generator().manual_seed(0),
    )
    for _ in range(200):
        fit.epoch(*train)
    after = mean_errors(block, test, d)
    assert float(after.sum()) < 0.05 * float(before.sum())
    assert float(after[rows].sum()) < 0.05 * float(before[rows].sum())
    assert fit.losses[-1][1] == pytest.approx(float(after.sum()), rel=1e-5)


def test_new_students_are_others_in_every_epoch(tmp_path):
    """The same training with and without: they agree after one epoch, not after two."""
    from icgd.lab.sweeps.cells import Workplace

    block = {
        way: {"kind": "products", "heads": 2, "keys": 2, "hidden": 4, "copies": True, "scale": LR}
        for way in ("forward", "backward")
    }
    same = {
        "d": 2,
        "n_layers": 1,
        "n_rounds": 2,
        "lr": LR,
        "students": 5,
        "block": block,
        "batch": 4,
        "rate": 1e-2,
        "tested": 3,
        "tested_layers": [1, 2],
        "seed": 0,
    }

    def curves(fresh, epochs, **changed):
        made = train_operators(
            Workplace(tmp_path, tmp_path), fresh=fresh, epochs=epochs, **same, **changed
        )
        assert set(made["chains"]) == {"1", "2"}
        return made["curves"]

    assert curves(True, 1) == curves(False, 1)
    assert curves(True, 2) != curves(False, 2)
    # Growing from full width is not growing; growing from 1 is.
    assert curves(True, 2) == curves(True, 2, grown_from=2) != curves(True, 2, grown_from=1)


@pytest.mark.parametrize(("d", "start"), [(1, 1), (5, 1), (10, 5), (20, 19)])
@pytest.mark.parametrize("epochs", [1, 2, 7, 50])
def test_students_grow_to_the_full_width_in_the_first_half(d, start, epochs):
    widths = [active_width(d, start, epoch, epochs) for epoch in range(epochs)]
    assert widths[0] == start
    assert widths == sorted(widths)
    assert all(width == d for width in widths[(epochs + 1) // 2 :])


SMALL = {
    "d": 2,
    "n_layers": 2,
    "n_rounds": 3,
    "lr": LR,
    "students": 5,
    "fresh": False,
    "batch": 4,
    "epochs": 1,
    "tested": 8,
    "tested_layers": [2],
    "seed": 0,
}
BLOCKS = {
    way: {"kind": "products", "heads": 2, "keys": 2, "hidden": 4, "copies": True, "scale": LR}
    for way in ("forward", "backward")
}


@pytest.mark.parametrize("exact", ["forward", "backward"])
def test_a_chain_with_one_exact_operator_tells_which_one_errs(tmp_path, monkeypatch, exact):
    """One operator is written by hand, the other is random: only the second one's place matters."""
    from icgd.lab.sweeps.cells import Workplace
    from icgd.papers.cot.appendix_d import runs as cot_d_runs

    # A ramp that 32 bits can tell from its shifted self.
    by_hand = {"forward": partial(forward_by_hand, tau=1e-3), "backward": backward_by_hand}

    def build(d, direction, told):
        if direction == exact:
            return by_hand[direction](d).float()
        return ProductBlock(
            d, direction, heads=2, keys=2, hidden=4, copies=True, scale=told["scale"]
        )

    monkeypatch.setattr(cot_d_runs, "_build", build)
    found = train_operators(Workplace(tmp_path, tmp_path), block=BLOCKS, rate=0.0, **SMALL)
    other = "backward" if exact == "forward" else "forward"
    # What is replaced by the exact operator is the one that errs: then nothing is off.
    assert found[f"exact_{other}"] < 1e-6
    assert found[f"exact_{exact}"] == pytest.approx(found["chains"]["2"]["off_mean"][-1], rel=1e-3)
    assert found[f"exact_{exact}"] > 1e-4


def test_no_chain_is_written_when_only_the_cost_is_asked(tmp_path, monkeypatch):
    from icgd.lab.sweeps.cells import Workplace
    from icgd.papers.cot.appendix_d import runs as cot_d_runs
    from icgd.papers.cot.appendix_d.operators import OperatorFit

    trained, epoch = [], OperatorFit.epoch
    monkeypatch.setattr(OperatorFit, "epoch", lambda *a: trained.append(epoch(*a)))
    monkeypatch.setattr(cot_d_runs, "roll_out", lambda *_: pytest.fail("a chain was written"))
    place = Workplace(tmp_path, only_cost=True)
    assert train_operators(place, block=BLOCKS, rate=1e-3, **SMALL) == {}
    assert len(trained) == 2 * SMALL["epochs"]


def test_distances_and_guesses_are_those_by_hand(tmp_path):
    from icgd.lab.sweeps.cells import Workplace
    from icgd.lab.training.trainer import data_generator
    from icgd.papers.cot.appendix_d import runs as cot_d_runs

    found = train_operators(Workplace(tmp_path, tmp_path), block=BLOCKS, rate=0.0, **SMALL)

    def chain_of(step):
        return exact_chain(random_students(8, 2, 2, 3, LR, data_generator(0, step)))

    rolled = chain_of(cot_d_runs.TESTED + 1 + 2)
    moved = [(rolled.weights(r) - rolled.weights(0)).flatten(1).square().sum(1) for r in (1, 2, 3)]
    told = found["chains"]["2"]
    assert told["wild"] == [0.0]
    assert told["moved_mean"] == pytest.approx([float(m.mean()) for m in moved])
    assert told["moved_median"] == pytest.approx([float(m.median()) for m in moved])
    # Of the backward block a guess that copies misses all but the weights before the step.
    seen, written = chain_of(cot_d_runs.TESTED).backward_pairs()
    B, F = backward_layout(2), forward_layout(2)
    before = seen[:, B.width :][:, entries(F, "weight")]
    stepped = (written[:, entries(B, "weight")] - before).square().sum(1)
    others = written[:, [*entries(B, "delta"), *entries(B, "signal")]].square().sum(1)
    guess = found["baselines"]
    assert guess["weights, copies"] == pytest.approx(2 * float(stepped.mean()), rel=1e-4)
    expected = 2 * float((stepped + others).mean())
    assert guess["backward, copies and zeros"] == pytest.approx(expected, rel=1e-4)


def test_a_chain_that_overflows_is_as_far_off_as_can_be():
    from icgd.papers.cot.appendix_d.blocks import exact_forward
    from icgd.papers.cot.appendix_d.runs import _distances

    given = random_students(3, 2, 1, 2, LR, torch.Generator().manual_seed(0))

    def overflowing(seen):
        return torch.full_like(seen[:, : backward_layout(2).width], float("nan"))

    told = _distances(given, lambda seen: exact_forward(seen, 2), overflowing)
    assert told["off_mean"] == [float("inf")] * 2
    assert all(value < float("inf") for value in told["moved_mean"])


def test_students_on_which_sgd_explodes_are_counted_and_left_out_of_means():
    from icgd.papers.cot.appendix_d.blocks import Students, exact_backward, exact_forward
    from icgd.papers.cot.appendix_d.runs import _distances

    given = random_students(6, 2, 1, 4, LR, torch.Generator().manual_seed(1))
    inputs = given.inputs.clone()
    inputs[0] *= 30.0  # one of them makes steps of nearly a thousand times their size
    wild = Students(given.weights, given.teacher, inputs, LR)

    def told(students):
        return _distances(
            students,
            lambda seen: exact_forward(seen, 2),
            lambda seen: 1.01 * exact_backward(seen, 2, LR),
        )

    some, all_tame = told(wild), told(given)
    assert all_tame["wild"] == [0.0]
    assert some["wild"] == pytest.approx([1 / 6])
    rest = Students(given.weights[1:], given.teacher[1:], given.inputs[1:], LR)
    assert some["moved_mean"] == pytest.approx(told(rest)["moved_mean"])
    assert some["off_mean"] == pytest.approx(told(rest)["off_mean"])
    assert all_tame["off_all"] == pytest.approx(all_tame["off_mean"])
    assert some["moved_all"][-1] > 10 * some["moved_mean"][-1]
