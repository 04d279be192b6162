"""How far a looped regression can be from exact gradient descent, from what its heads promise."""

from __future__ import annotations

import torch
from torch import Tensor

from icgd.transformer.blocks import pack_block
from icgd.transformer.nn.stack.stack import Stack, unwatched
from icgd.transformer.program import Program
from icgd.transformer.program.session import Session


def loop_bound(
    program: Program, features: Tensor, targets: Tensor, query: Tensor, steps: int
) -> float:
    """Bound on |answer - A_T f| after so many steps, for one prompt; needs lr * lambda_max <= 2.

    features, targets  (N, D) and (N, k): what the loop regresses     query  (D,): f

    A step changes residuals by the product sum_s r_s <k_s, f_i>, off by at most `sup_error` per unit of
    sum |r_s|, and by rounding. With M = I - lr K, an error d of the N residuals m steps before the end reaches
    the answer as lr row (I + M + .. + M^(m-1)) d, where K = <k_s, f_i> and row = <k_s, f>.
    """
    lr, n = program.optimizer.lr, len(features)
    u, width = torch.finfo(program.dtype).eps / 2, features.shape[1]
    kernel, row = features @ features.T / n, features @ query / n
    reach = max(float(kernel.abs().max()), float(row.abs().max()))
    # Rounding of k and f, of their product, and of the sum over tokens.
    rate = lr * (program.certificate.sup_error + u * (2 * width + 2 * n + 8) * reach)
    r, answer, fresh = -targets, torch.zeros_like(targets[0]), list[float]()
    trained, answer_error, passes = 0.0, 0.0, lr * float(row.norm())
    for _ in range(steps):
        total = float((r.abs().sum(dim=0) + answer.abs()).max()) + n * trained + answer_error
        fresh.append(rate * total + 4 * u * max(float(r.abs().max()), float(answer.abs().max())))
        # M does not stretch the Euclidean norm: enough for what errors do to later errors.
        answer_error, trained = (
            answer_error + passes * trained + fresh[-1],
            trained + n**0.5 * fresh[-1],
        )
        r, answer = r - lr * kernel @ r, answer - lr * row @ r
    bound, reaches = 0.0, torch.zeros_like(row)
    for error in reversed(fresh):
        bound += error * (1.0 + float(reaches.abs().sum()))
        reaches = lr * row + reaches - lr * reaches @ kernel
    return bound


def slots_after(program: Program, session: Session, last: str | None = None) -> dict[str, Tensor]:
    """Slots of a prompt after the entry layers, or after one sublayer of them."""
    entry = program.entry
    assert isinstance(entry, Stack)
    block = next(iter(session.prompt.values()))
    tokens = pack_block(block, program.layout, session.n_columns, program.step.like)
    for name, layer in entry.each():
        tokens = layer.collapsed(tokens, unwatched)
        if name == last:
            break
    return program.layout.unpack(tokens)
