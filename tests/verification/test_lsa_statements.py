"""The rows of [LSA], and that they can fail."""

from __future__ import annotations

import pytest
import torch

from icgd.verification import lsa_cases, lsa_statements, lsa_training

ROWS = {
    "Theorem 3.1": lsa_statements.theorem_31,
    "Corollary 3.1": lsa_statements.corollary_31,
    "Theorem 3.2": lsa_statements.theorem_32,
    "Evaluation loss after k steps": lsa_statements.loss_after_k_steps,
    "Assumption 4.1": lsa_training.assumption_41,
    "Lemma C.2": lsa_training.lemma_c2,
    "Theorem 4.1": lsa_training.theorem_41,
    "Theorem 4.2": lsa_training.theorem_42,
}
FAIL = {"Evaluation loss after k steps", "Theorem 4.2"}


@pytest.mark.parametrize("name", ROWS)
def test_every_row_passes_with_the_documented_verdict(name):
    row = ROWS[name]()
    assert row.statement == name
    assert row.passed
    assert row.printed_verdict == ("fails" if name in FAIL else "holds")


@pytest.mark.parametrize("name", ["Assumption 4.1", "Theorem 3.1", "Theorem 4.1", "Theorem 4.2"])
def test_what_needs_training_names_the_experiment(name):
    assert "lsa-train" in ROWS[name]().counterexample


def test_a_wrong_floor_is_noticed(monkeypatch):
    monkeypatch.setattr(lsa_statements, "one_step_floor", lambda d, n: d**2 / (2 * n))
    assert not lsa_statements.theorem_31().passed
    assert not lsa_statements.corollary_31().passed


def test_a_wrong_construction_is_noticed(monkeypatch):
    right = lsa_statements.chain_program
    monkeypatch.setattr(
        lsa_statements, "chain_program", lambda d, n, lr: right(d, n, lr * (1 + 1e-9))
    )
    row = lsa_statements.theorem_32()
    assert not row.passed
    assert row.printed_verdict == "fails"


def test_an_objective_without_its_minimum_there_is_noticed(monkeypatch):
    right = lsa_training.cot_layer
    monkeypatch.setattr(lsa_training, "cot_layer", lambda d, n, lr: right(d, n, 1.001 * lr))
    assert not lsa_training.theorem_41().passed


def test_an_asymmetric_sample_is_noticed(monkeypatch):
    monkeypatch.setattr(lsa_training, "mirrored", lambda given: given)
    assert not lsa_training.lemma_c2().passed
    assert not lsa_training.assumption_41().passed


def test_mirrored_prompts_are_closed_under_sign_changes():
    given = lsa_cases.mirrored(lsa_cases.prompts(3, 4, 2))
    assert given.X.shape == (16, 4, 3)
    flipped = given.X * torch.tensor([-1.0, 1.0, 1.0])
    for X in flipped:
        assert any(torch.equal(X, other) for other in given.X)
    # Labels are those of the prompt that was mirrored.
    assert torch.allclose(given.y[0], given.y[2])


def test_the_objective_is_the_sum_over_the_chain():
    """Written out once more, with the exact next weights as targets and nothing learned."""
    given, lr, k = lsa_cases.prompts(2, 5, 3), 0.3, 4
    layer = lsa_cases.cot_layer(2, 5, lr)
    with torch.no_grad():
        layer.V.zero_()
    w, total = torch.zeros(3, 2, dtype=torch.float64), 0.0
    for _ in range(k):
        residual = torch.einsum("bnd,bd->bn", given.X, w) - given.y
        new = w - lr / 5 * torch.einsum("bnd,bn->bd", given.X, residual)
        total += float((new - w).square().sum(dim=1).mean()) / 2
        w = new
    assert abs(float(lsa_cases.cot_loss(layer, given, lr, k).detach()) - total) < 1e-13
