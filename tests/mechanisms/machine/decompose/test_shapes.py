"""Layouts against PyTorch, values and gradients."""

from __future__ import annotations

import pytest
import torch
from captured_runs import double, function_gap, slope

X = torch.linspace(-2, 3, 24, **double).reshape(4, 6)


def written(x):
    h = x * 1.0
    h[:, 1:3] = 7.0
    h[0] += h[1]
    h[:, ::2] *= 2
    h[h > 1] = 0.5
    return h


CASES = {
    "slices": lambda x: x[:, ::2] * x[:, 1::2] + x[-1, -3:].sum(),
    "rows by number": lambda x: x[[2, 0, 2]] * 3,
    "entries by number": lambda x: x[[2, 0], [1, 1]],
    "columns by number": lambda x: x[:, [5, 0]],
    "turned": lambda x: x.roll(1, 1).flip(0).roll(3).t(),
    "repeated": lambda x: x.repeat(2, 3) * torch.arange(18.0).double(),
    "stacked": lambda x: (
        torch.stack(x.unbind(1), 0) + torch.cat(x.split([1, 2, 3], 1)[::-1], 1).t()
    ),
    "chunks": lambda x: sum(part.sum(1) * k for k, part in enumerate(x.chunk(3, 1))),
    "moved": lambda x: x.movedim(0, 1).swapaxes(0, 1).contiguous().view(-1).view(2, 12).squeeze(),
    "triangles": lambda x: x.tril() @ x.triu(1).t(),
    "diagonals": lambda x: torch.diagonal(x, 1) * torch.diagonal(x, -1).sum(),
    "embedded diagonal": lambda x: torch.diag_embed(x[0]) @ x.t(),
    "padded": lambda x: torch.nn.functional.pad(x, (1, 2, 0, 1), value=3.0).square(),
    "cut by padding": lambda x: torch.nn.functional.pad(x, (1, -2)).square(),
    "spread": lambda x: x[:, None].expand(4, 3, 6) * x[None, :3],
    "written into": written,
    "einsum": lambda x: torch.einsum("ij,kj,k->i", x, x, torch.ones(4).double()),
    "outer": lambda x: torch.outer(x[0], x[1]) @ x[2] + torch.kron(x[:1], x[:1, :1])[0],
    "grids": lambda x: torch.stack(torch.meshgrid(x[0], x[1], indexing="ij")),
}


@pytest.mark.parametrize("name", CASES)
def test_layouts_and_their_gradients(name):
    function = CASES[name]

    def both(x):
        return function(x), slope(lambda z: function(z).square())(x)

    assert function_gap(both, X) <= 4e-15
