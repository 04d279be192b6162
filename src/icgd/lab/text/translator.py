"""Training a model to translate, and what it has learned: cross-entropy, and translations."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from icgd.errors import AssumptionViolated
from icgd.lab.models.language import LanguageModel
from icgd.lab.text.batches import Rows, endless_batches, rows_of
from icgd.lab.text.vocabulary import END, Encoded
from icgd.lab.training.schedule import cosine

MEASURED_TOGETHER = 64


def train_translator(
    model: LanguageModel,
    pairs: Sequence[Encoded],
    *,
    most_tokens: int,
    steps: int,
    batch: int,
    rate: float,
    warmup: int,
    seed: int,
) -> list[float]:
    """Adam with a linear start and a cosine's end; the loss of every step, in nats per target token."""
    device = next(model.parameters()).device
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min(1.0, (step + 1) / max(1, warmup)) * cosine(step / steps),
    )
    losses = []
    for _, drawn in zip(range(steps), endless_batches(pairs, batch, seed), strict=False):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model, rows_of(drawn, most_tokens).to(device))
        losses.append(float(loss.detach()))
        if not math.isfinite(losses[-1]):
            raise AssumptionViolated(
                f"The loss of step {len(losses)} is {losses[-1]}: training diverged."
            )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return losses


def loss_of(model: LanguageModel, rows: Rows) -> Tensor:
    """Cross-entropy of the targets given their sources, in nats per token, over iterates max(T - dT, 1) .. T.

    Statement: [ALGO] Equation 6 with the cross-entropy of Section 5.5

    Differs from the paper: the mean of the iterates, which the paper divides by one less than their number.
    """
    scores = model(rows.tokens, rows.positions, rows.asked, model.config.window)
    return torch.stack([functional.cross_entropy(s, rows.wanted) for s in scores]).mean()


@torch.no_grad()
def nats_of_pairs(
    model: LanguageModel, pairs: Sequence[Encoded], most_tokens: int
) -> list[list[float]]:
    """-log p(token | source, tokens before it) of every pair's target and its end, after the last loop."""
    device = next(model.parameters()).device
    nats: list[list[float]] = [[] for _ in pairs]
    by_length = sorted(range(len(pairs)), key=lambda i: sum(map(len, pairs[i])))
    for start in range(0, len(pairs), MEASURED_TOGETHER):
        chosen = by_length[start : start + MEASURED_TOGETHER]
        rows = rows_of([pairs[i] for i in chosen], most_tokens).to(device)
        (scores,) = model(rows.tokens, rows.positions, rows.asked)
        each = functional.cross_entropy(scores.double(), rows.wanted, reduction="none")
        for i, part in zip(chosen, each.split(rows.asked.sum(1).tolist()), strict=True):
            nats[i] = part.tolist()
    return nats


@torch.no_grad()
def translate(
    model: LanguageModel, sources: Sequence[Sequence[int]], most_tokens: int
) -> list[tuple[int, ...]]:
    """Targets, token by token the likeliest one, until their end or as long as targets may be."""
    device = next(model.parameters()).device
    targets: list[list[int]] = [[] for _ in sources]
    open_ = list(range(len(sources)))
    while open_:
        rows = rows_of([(tuple(sources[i]), tuple(targets[i])) for i in open_], most_tokens)
        # Of every row only the last token is asked: no later one is.
        last = rows.asked & (rows.asked.long().flip(1).cumsum(1).flip(1) == 1)
        (scores,) = model(rows.tokens.to(device), rows.positions.to(device), last.to(device))
        for i, token in zip(open_, scores.argmax(1).tolist(), strict=True):
            targets[i].append(token)
        open_ = [i for i in open_ if targets[i][-1] != END and len(targets[i]) < most_tokens]
    return [tuple(t for t in tokens if t != END) for tokens in targets]
