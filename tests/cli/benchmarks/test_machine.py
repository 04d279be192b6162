"""Both sides of the benchmark make the same updates."""

from __future__ import annotations

import torch

from icgd.cli.benchmarks import machine


def test_both_ways_end_with_the_same_weights(monkeypatch):
    monkeypatch.setattr(machine, "UPDATES", 3)
    ours, theirs = machine.both_ways(4, 2, 2, "torch")
    run = ours()
    theirs()
    model = theirs.__closure__
    modules = [c.cell_contents for c in model if isinstance(c.cell_contents, torch.nn.Module)]
    for name, value in modules[0].state_dict().items():
        assert float((run.state_dict[name] - value).abs().max()) < 1e-14
