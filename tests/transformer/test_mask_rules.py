"""Dynamic masking: what every step sees is exactly what back-propagation needs, and is there."""

from __future__ import annotations

import pytest

from icgd.transformer.mask_rules import DynamicMask

DEPTHS = [1, 2, 3, 7]


@pytest.mark.parametrize("n", DEPTHS)
def test_a_round_goes_up_and_down_once(n):
    steps = DynamicMask(n).steps()
    assert [step.writes for step in steps] == [
        *[("F", i) for i in range(1, n + 1)],
        *[("B", i) for i in range(n, 0, -1)],
    ]
    kinds = ["x", *["forward"] * (n - 1), "y", *["backward"] * (n - 1)]
    assert [step.kind for step in steps] == kinds


@pytest.mark.parametrize("n", DEPTHS)
def test_every_step_sees_what_its_formula_needs(n):
    sees = {step.writes: step.reads for step in DynamicMask(n).steps()}
    assert sees[("F", 1)] == (("B", 1), ("X", 0))
    assert sees[("B", n)] == (("F", n), ("Y", 0))
    for i in range(2, n + 1):
        assert sees[("F", i)] == (("F", i - 1), ("B", i))
    for i in range(1, n):
        assert sees[("B", i)] == (("B", i + 1), ("F", i))


@pytest.mark.parametrize("n", DEPTHS)
def test_no_step_reads_a_block_of_an_earlier_round_that_it_should_not(n):
    """F blocks and the B block above are this round's own; only B_i is carried over, once."""
    written: set[tuple[str, int]] = set()
    for step in DynamicMask(n).steps():
        for address in step.reads:
            carried = address[0] == "B" and step.writes == ("F", address[1])
            assert address[0] in "XY" or carried != (address in written)
        written.add(step.writes)


@pytest.mark.parametrize("n", DEPTHS)
def test_storage_marked_reusable_is_read_by_no_later_step(n):
    """W_i and b_i travel B_i -> F_i -> B_i: after the backward step nothing reads the old ones."""
    steps = DynamicMask(n).steps()
    for at, step in enumerate(steps):
        if step.reusable:
            (layer,) = [a for a in step.reads if a == ("F", step.writes[1])]
            assert all(layer not in later.reads for later in steps[at + 1 :])


@pytest.mark.parametrize("n", DEPTHS)
def test_predicting_is_the_first_half_of_a_round(n):
    mask = DynamicMask(n)
    assert mask.forward_steps() == mask.steps()[:n]
