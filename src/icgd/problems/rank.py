"""The rank of features, as far as floating point can tell it."""

from __future__ import annotations

import torch
from torch import Tensor

UNIT = 2.0**-53


def visible_rank(rows: Tensor) -> int:
    """The rank to machine precision of the columns at length 1: small units make no feature dependent.

    >>> visible_rank(torch.tensor([[1.0, 2e-9], [1.0, 3e-9], [1.0, 5e-9]], dtype=torch.float64))
    2
    >>> visible_rank(torch.tensor([[1.0, 3.0], [1.0, 3.0]], dtype=torch.float64))
    1
    """
    columns = rows.double()[:, (rows != 0).any(dim=0)]
    if columns.numel() == 0:
        return 0
    # Twice, as the squares of a tiny column underflow.
    columns = columns / columns.abs().amax(dim=0)
    sizes = torch.linalg.svdvals(columns / columns.norm(dim=0))
    return int((sizes > max(rows.shape) * 2 * UNIT * sizes[0]).sum())
