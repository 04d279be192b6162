"""How many ReLU networks of DEEP's G.2 survive a negative shift of their parameters, by width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from icgd.lab.sweeps.cells import Workplace
from icgd.lab.tasks.distributions import Gaussian
from icgd.lab.tasks.networks import AT_MINUS_TWO, N_REFERENCE, NetworkRegression, is_constant

LIVING = "networks that are not constant"
WIDTHS = (8, 20, 50, 100, 200)
N_LAYERS = 4
SHIFT = -0.5
NETWORKS = 400
CHUNK = 50
"""Networks that are drawn at a time."""


def share_not_constant(
    n_dims: int,
    width: int,
    *,
    networks: int = NETWORKS,
    seed: int = 0,
    mean: float = SHIFT,
    n_layers: int = N_LAYERS,
    slope: float = 0.0,
) -> float:
    """The share of networks with parameters N(mean, 1) that are not constant on inputs N(-2, I).

    slope  of a leaky ReLU

    >>> share_not_constant(20, 200, networks=50), share_not_constant(20, 200, networks=50, slope=0.1)
    (0.0, 1.0)
    """
    task = NetworkRegression(
        n_dims,
        weights=Gaussian(mean=mean),
        inputs=AT_MINUS_TWO,
        n_layers=n_layers,
        hidden_layer_size=width,
        scaling="none",
        slope=slope,
    )
    source = torch.Generator().manual_seed(seed)
    alive = 0
    for start in range(0, networks, CHUNK):
        count = min(CHUNK, networks - start)
        outputs = task.sample(count, N_REFERENCE, generator=source).ys
        alive += int((~is_constant(outputs)).sum())
    return alive / networks


def shares_by_width(
    place: Workplace, *, n_dims: Sequence[int], widths: Sequence[int], seed: int
) -> dict[str, Any]:
    """Shares of ReLU networks, by number of inputs and by width."""
    torch.set_num_threads(1)
    shares = {
        f"d = {d}": {str(width): share_not_constant(d, width, seed=seed) for width in widths}
        for d in n_dims
    }
    return {"share": shares, "networks": NETWORKS}
