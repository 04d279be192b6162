"""Models that two figures of [ALGO] have in common are trained once."""

from __future__ import annotations

from icgd.lab.sweeps.cells import Workplace
from icgd.lab.training.journal import METRICS
from icgd.papers.registry import find_experiment


def test_two_experiments_share_their_models(reproduced, reproduce_smoke, tmp_path):
    """Figures 2 and 3 of ALGO have one AlgoFormer in common at smoke scale, and its row is the same."""
    reproduced("algo-fig2").copied_to(tmp_path / "out")
    before = {p: p.read_bytes() for p in (tmp_path / "out" / "models").glob(f"*/{METRICS}")}
    said = reproduce_smoke("algo-fig3", tmp_path / "out")
    assert said.exit_code == 0, said.output
    after = {p: p.read_bytes() for p in (tmp_path / "out" / "models").glob(f"*/{METRICS}")}
    assert {p: after[p] for p in before} == before
    assert len(after) == len(before) + 2  # of three pairs (T, dT) one was there
    place = Workplace(tmp_path / "out" / "any", tmp_path / "out" / "models")
    mine, theirs = (
        {
            place.model_directory(c.config).name
            for c in find_experiment(name).cells("smoke")
            if c.config
        }
        for name in ("algo-fig2", "algo-fig3")
    )
    assert len(mine & theirs) == 1
