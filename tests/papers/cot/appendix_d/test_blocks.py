"""Blocks of SGD hold what autograd and torch.optim do, and operators that are exact write them."""

from __future__ import annotations

import pytest
import torch

from icgd.papers.cot.appendix_d.blocks import (
    backward_layout,
    exact_backward,
    exact_chain,
    exact_forward,
    forward_layout,
    random_students,
    roll_out,
)

SIZES = [(1, 1, 1), (1, 3, 2), (4, 1, 3), (3, 2, 4), (5, 3, 3)]
sizes = pytest.mark.parametrize(("d", "n_layers", "n_rounds"), SIZES)


def students(d, n_layers, n_rounds, count=3, seed=0, lr=0.05):
    return random_students(count, d, n_layers, n_rounds, lr, torch.Generator().manual_seed(seed))


def trained_by_torch(given, k):
    """Weights of one student after every round, by autograd and torch.optim.SGD."""
    weights = [torch.nn.Parameter(w.clone()) for w in given.weights[k]]
    optimizer = torch.optim.SGD(weights, lr=given.lr)

    def network(layers, x):
        for w in layers:
            x = (w @ x).relu()
        return x

    for x in given.inputs[k]:
        loss = (network(weights, x) - network(given.teacher[k], x)).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield torch.stack([w.detach().clone() for w in weights])


@sizes
@pytest.mark.parametrize("seed", [0, 1])
def test_weights_are_those_of_torch_sgd(d, n_layers, n_rounds, seed):
    given = students(d, n_layers, n_rounds, seed=seed)
    chain = exact_chain(given)
    assert torch.equal(chain.weights(0), given.weights)
    for k in range(3):
        for round_, exact in enumerate(trained_by_torch(given, k), 1):
            torch.testing.assert_close(chain.weights(round_)[k], exact, rtol=0, atol=1e-13)


@sizes
def test_blocks_have_the_rows_of_the_definition(d, n_layers, n_rounds):
    width = 1 + 3 * d + d * d
    assert forward_layout(d).width == backward_layout(d).width == width
    chain = exact_chain(students(d, n_layers, n_rounds))
    assert chain.forward.shape == (3, n_rounds, n_layers + 1, width)
    assert chain.backward.shape == (3, n_rounds + 1, n_layers + 1, width)
    for pairs in (chain.forward_pairs(), chain.backward_pairs()):
        assert [t.shape for t in pairs] == [
            (3 * n_rounds * n_layers, 2 * width),
            (3 * n_rounds * n_layers, width),
        ]
    last = forward_layout(d).unpack(chain.forward[:, 0, -1])
    signal = backward_layout(d).unpack(chain.backward[:, 1, -1])["signal"]
    assert torch.equal(signal, 2 * (last["output"] - chain.students.labels(0)))


@sizes
def test_an_operator_that_is_exact_writes_every_pair(d, n_layers, n_rounds):
    given = students(d, n_layers, n_rounds)
    chain = exact_chain(given)
    seen, written = chain.forward_pairs()
    assert torch.equal(exact_forward(seen, d), written)
    seen, written = chain.backward_pairs()
    assert torch.equal(exact_backward(seen, d, given.lr), written)


def test_a_chain_depends_on_the_operators_that_write_it():
    """With no steps of size 0 the weights stay; with a wrong forward operator they go elsewhere."""
    given = students(3, 2, 4)
    frozen = roll_out(given, lambda s: exact_forward(s, 3), lambda s: exact_backward(s, 3, 0.0))
    assert torch.equal(frozen.weights(4), given.weights)
    wrong = roll_out(
        given, lambda s: 1.1 * exact_forward(s, 3), lambda s: exact_backward(s, 3, given.lr)
    )
    assert float((wrong.weights(4) - exact_chain(given).weights(4)).abs().max()) > 1e-3


def test_units_at_the_kink_are_closed_as_in_torch():
    given = students(2, 2, 1)
    given.weights[:, 0] = 0.0  # z = 0 everywhere in the first layer
    chain = exact_chain(given)
    for k in range(3):
        (exact,) = trained_by_torch(given, k)
        assert torch.equal(chain.weights(1)[k], exact)


@pytest.mark.parametrize(("d", "active"), [(2, 1), (5, 3), (4, 4)])
def test_narrow_students_learn_the_same_among_wide_ones(d, active):
    def drawn(width):
        return random_students(3, width, 2, 4, 0.05, torch.Generator().manual_seed(0), active)

    wide, narrow = (exact_chain(drawn(width)).weights(4) for width in (d, active))
    torch.testing.assert_close(wide[..., :active, :active], narrow, rtol=0, atol=1e-14)
    idle = wide.clone()
    idle[..., :active, :active] = 0.0
    assert not idle.any()
