"""What the claims of deep-h and bridge-resources ask besides what test_claims drives either way."""

from __future__ import annotations

import copy

import pytest
from naive_cases import all_have_learned
from score_and_depth_cases import scores_reach, trained_errors

from icgd.papers.bridge.experiment.depth import BALL
from icgd.papers.deep.appendix_h.diffusion import SCORE
from icgd.papers.deep.appendix_h.experiment import LEARNERS
from icgd.papers.registry import find_experiment


def three_seeds(name, rows):
    made = [{**copy.deepcopy(row), "seed": seed} for seed in range(3) for row in rows]
    all_have_learned(name, made)
    return made


@pytest.mark.parametrize(("how", "activation", "target"), LEARNERS)
def test_a_score_that_is_not_learned_is_not_learned_as_well(reproduced, how, activation, target):
    """Both trainings end in the same place, and it is no good."""
    rows = three_seeds("deep-h", reproduced("deep-h").record.rows)
    scores_reach(how, activation, target, 0.79, 0.79)(rows)
    short = f"the {how} learns the score with a {activation} network as direct training does"
    short += "" if target == SCORE else ", from noise alone"
    (claim,) = [c for c in find_experiment("deep-h").claims(rows) if c.short == short]
    assert claim.holds is False


def test_samples_are_a_question_of_ours(reproduced):
    claims = find_experiment("deep-h").claims(reproduced("deep-h").record.rows)
    assert [claim.ours for claim in claims] == [False] * len(LEARNERS) + [True] * len(LEARNERS)


def test_deep_networks_that_are_never_accurate_enough_are_not_cheaper(reproduced):
    rows = three_seeds("bridge-resources", reproduced("bridge-resources").record.rows)
    trained_errors(BALL, 0.2, 0.1)(rows)
    claims = [c for c in find_experiment("bridge-resources").claims(rows) if "the ball" in c.short]
    for claim in claims[1:]:
        assert claim.holds is False
        assert "no deep network is accurate enough in 3 of 3 seeds" in claim.found
