"""Work of the experiment lsa-train: trainings of one attention layer, and what is measured of them.

Everything that compares with gradient descent compares in function, on fresh prompts; parameters are compared
only where they are determined.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import median
from typing import Any, Literal

import torch
from torch import Tensor, nn

from icgd.lab.plain_layer import PlainLayer
from icgd.lab.sweeps.cells import Workplace
from icgd.lab.training.trainer import data_generator
from icgd.mechanisms.loops.linear_attention.layer import chain_layout
from icgd.papers.lsa.experiment.chain_model import (
    ChainModel,
    Start,
    chain_loss,
    descent,
    fit,
    legendre_prompts,
    outcome_loss,
    recovery,
)
from icgd.papers.lsa.statements.cases import Prompts, gaussian_prompts
from icgd.papers.lsa.statements.formulas import best_step, one_step_floor

TIMED_PROMPTS = 64
EARLY = 200
"""Steps in which eigenvalues move most, with Adam."""
EVALUATION = 2**30
"""Steps are counted from here when prompts are drawn for measuring."""
Draw = Callable[[int, int], Prompts]
DRAWN = {"gaussian": gaussian_prompts, "legendre": legendre_prompts}


def _measured(place: Workplace, prompts: int) -> int:
    """Prompts to measure on: few if the cost of a step is asked."""
    return min(prompts, TIMED_PROMPTS) if place.only_cost else prompts


def _drawing(kind: str, seed: int, n: int, d: int) -> Draw:
    """Prompts of a step: they depend on seed and step alone."""
    make = DRAWN[kind]
    return lambda step, count: make(count, n, d, data_generator(seed, step))


def train_chain(
    place: Workplace,
    *,
    d: int,
    n: int,
    k: int,
    lr: float,
    start: Start,
    optimizer: Literal["adam", "gd"],
    rate: float,
    steps: int,
    batch: int,
    seed: int,
    prompts: int,
    blocks_only: bool = False,
    without_targets: bool = False,
    kind: str = "gaussian",
    fixed_prompts: int = 0,
    spectra: dict[str, list[float]] | None = None,
    shifted_n: int = 0,
    eigenvalues: bool = False,
    last_is_target: bool = False,
    clip: float = math.inf,
) -> dict[str, Any]:
    """Train on the chain-of-thought loss and hold the layer against gradient descent.

    blocks_only    train V31 and W13 alone
    without_targets  all entries are trained but the column of V that targets speak through
    fixed_prompts  so many prompts are drawn once and used in every step; 0: new ones
    spectra        covariances of inputs to test on, as eigenvalues by name, with shifted_n examples
    last_is_target the true weights are the last target
    clip           the largest norm of a gradient
    eigenvalues    keep those of V31 and W13 along the training
    """
    torch.set_num_threads(1)
    prompts = _measured(place, prompts)
    model = ChainModel(d, start, torch.Generator().manual_seed(seed))
    if blocks_only:
        model.only_blocks()
    elif without_targets:
        model.without_targets()
    draw = _drawing(kind, seed, n, d)
    pool = draw(0, fixed_prompts) if fixed_prompts else None

    def loss_of(step: int) -> Tensor:
        if pool is None:
            return chain_loss(model, draw(step, batch), lr, k, last_is_target)
        chosen = torch.randint(
            fixed_prompts, (batch,), generator=data_generator(seed, 2 * EVALUATION + step)
        )
        return chain_loss(
            model, Prompts(pool.X[chosen], pool.target[chosen]), lr, k, last_is_target
        )

    watched, curves = [], []
    before = _conditions(model)
    for seen in fit(
        model,
        loss_of,
        steps=steps,
        rate=rate,
        optimizer=optimizer,
        every=max(1, steps // 60),
        clip=clip,
        early=EARLY if eigenvalues else 0,
    ):
        watched.append([seen.step, seen.loss, seen.gradient])
        if eigenvalues:
            curves.append([_eigenvalues(model.V31), _eigenvalues(model.W13)])
    fresh = draw(EVALUATION, prompts)
    with torch.no_grad():
        loss = float(chain_loss(model, fresh, lr, k, last_is_target))
    shifts = {
        name: _shifted(model, values, shifted_n or n, lr, k, prompts, seed)
        for name, values in (spectra or {}).items()
    }
    return {
        "watched": watched,
        **({"eigenvalues": curves} if curves else {}),
        **({"shifts": shifts} if shifts else {}),
        "conditions": [before, _conditions(model)],
        "loss": loss,
        **_against_descent(model, fresh, lr, k),
        "blocks": _block_errors(model, lr),
    }


@torch.no_grad()
def _against_descent(model: ChainModel, fresh: Prompts, lr: float, k: int) -> dict[str, Any]:
    """Losses of the model's own chain and of exact descent, mean and median; how far apart they are."""
    rolled, exact = model.roll_out(fresh, k), descent(fresh, lr, k)
    ours, theirs = recovery(rolled[:, -1], fresh), recovery(exact[:, -1], fresh)
    size = exact.norm(dim=2).amax(1)
    off = (rolled - exact).norm(dim=2).amax(1) / size
    return {
        "mean": [float(ours.mean()), float(theirs.mean())],
        "median": [float(ours.median()), float(theirs.median())],
        "off": [float(off.max()), float(off.median())],
        "by_step": [
            [float(recovery(path[:, i], fresh).mean()) for i in range(k + 1)]
            for path in (rolled, exact)
        ],
    }


def _shifted(
    model: ChainModel, eigenvalues: list[float], n: int, lr: float, k: int, count: int, seed: int
) -> dict[str, Any]:
    """The trained layer on inputs with another covariance, where descent is stable and where it is not."""
    spectrum = torch.tensor(eigenvalues, dtype=torch.float64)
    fresh = gaussian_prompts(count, n, model.d, data_generator(seed, EVALUATION + 1), spectrum)
    stable = lr * torch.linalg.eigvalsh(fresh.X.mT @ fresh.X / n)[:, -1] < 2
    by_part: dict[str, Any] = {"unstable": float((~stable).double().mean())}
    for name, which in (("stable", stable), ("diverging", ~stable)):
        if bool(which.any()):
            part = Prompts(fresh.X[which], fresh.target[which])
            start = float(recovery(torch.zeros_like(part.target), part).mean())
            compared = _against_descent(model, part, lr, k)
            by_part[name] = {"mean": compared["mean"], "median": compared["median"], "start": start}
    return by_part


@torch.no_grad()
def _block_errors(model: ChainModel, lr: float) -> dict[str, float]:
    """How far the blocks that matter are from the construction, after the common scale is divided out."""
    scale = -float(model.W[model.y, model.one])
    eye = torch.eye(model.d, dtype=torch.float64)
    V, W = model.V31 * scale, model.W13 / scale
    return {
        "V31": float((V + lr * eye).norm() / (lr * math.sqrt(model.d))),
        "W13": float((W - eye).norm() / math.sqrt(model.d)),
    }


@torch.no_grad()
def _conditions(model: ChainModel) -> list[float]:
    """Largest over least singular value of V31 and W13."""
    return [float(torch.linalg.cond(block)) for block in (model.V31, model.W13)]


@torch.no_grad()
def _eigenvalues(block: Tensor) -> list[float]:
    values: list[float] = torch.linalg.eigvalsh((block + block.T) / 2).tolist()
    return values


def train_one_step(
    place: Workplace,
    *,
    d: int,
    n: int,
    rate: float,
    steps: int,
    batch: int,
    seed: int,
    prompts: int,
) -> dict[str, Any]:
    """No chain of thought: one application of the layer, trained on the weights themselves."""
    torch.set_num_threads(1)
    prompts = _measured(place, prompts)
    model = ChainModel(d, "spectral", torch.Generator().manual_seed(seed))
    draw = _drawing("gaussian", seed, n, d)
    for _ in fit(
        model, lambda step: outcome_loss(model, draw(step, batch), 1), steps=steps, rate=rate
    ):
        pass
    with torch.no_grad():
        fresh = draw(EVALUATION, prompts)
        losses = recovery(model.loop(fresh, 1), fresh)
        learned = float(-model.V31.diagonal().mean())
    return {
        "mean": [float(losses.mean())],
        "median": [float(losses.median())],
        "floor": one_step_floor(d, n),
        "rate": [learned, best_step(d, n)],
    }


def train_looped(
    place: Workplace,
    *,
    d: int,
    n: int,
    k: int,
    rates: list[float],
    rate: float,
    clip: float,
    steps: int,
    batch: int,
    seed: int,
    prompts: int,
) -> dict[str, Any]:
    """A loop of k steps trained on its outcome alone, beside gradient descent with the best of some rates.

    clip  of gradients: a single prompt on which the loop diverges would undo what all others have taught
    """
    torch.set_num_threads(1)
    prompts = _measured(place, prompts)
    model = ChainModel(d, "spectral", torch.Generator().manual_seed(seed))
    model.only_blocks()
    draw = _drawing("gaussian", seed, n, d)
    for _ in fit(
        model,
        lambda step: outcome_loss(model, draw(step, batch), k),
        steps=steps,
        rate=rate,
        clip=clip,
    ):
        pass
    with torch.no_grad():
        fresh = draw(EVALUATION, prompts)
        losses = recovery(model.loop(fresh, k), fresh)
        descents = {lr: recovery(descent(fresh, lr, k)[:, -1], fresh) for lr in rates}
        learned = median((-model.V31 @ model.W13).diagonal().tolist())
    return {
        "learned_rate": learned,
        "mean": [float(losses.mean()), min(float(v.mean()) for v in descents.values())],
        "median": [float(losses.median()), min(float(v.median()) for v in descents.values())],
    }


class SoftmaxLayer(nn.Module):
    """One causal softmax layer with a feed-forward part: what w changes by is read from the last token."""

    def __init__(self, d: int, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        layout = chain_layout(d)
        self.weights = layout.index("w").reshape(-1)
        self.read_in = nn.Linear(layout.width, width)
        self.layer = PlainLayer(width, heads=heads, hidden=hidden, causal=True)
        self.read_out = nn.Linear(width, d)

    def forward(self, data: Tensor, chain: Tensor) -> Tensor:
        """(B, k, d): the weights after every token of the chain (B, k, D)."""
        h = self.layer(self.read_in(torch.cat([data, chain], 1)))
        moved: Tensor = self.read_out(h[:, data.shape[1] :])
        return chain[..., self.weights] + moved


def train_softmax(
    place: Workplace,
    *,
    d: int,
    n: int,
    k: int,
    lr: float,
    width: int,
    heads: int,
    hidden: int,
    rate: float,
    steps: int,
    batch: int,
    seed: int,
    prompts: int,
) -> dict[str, Any]:
    """A softmax layer trained on the chain; without one on the weights themselves (k = 1, lr = 0)."""
    torch.set_num_threads(1)
    prompts = _measured(place, prompts)
    torch.manual_seed(seed)
    layer = SoftmaxLayer(d, width, heads, hidden)
    tokens = ChainModel(d, "construction", torch.Generator())
    optimizer = torch.optim.Adam(layer.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    draw = _drawing("gaussian", seed, n, d)
    watched = []
    for step in range(steps):
        given = draw(step, batch)
        path = descent(given, lr, k) if lr else torch.stack([0 * given.target, given.target], 1)
        data, chain = (
            t.float() for t in (tokens.data_tokens(given), tokens.chain_tokens(path[:, :-1]))
        )
        loss = 0.5 * (layer(data, chain) - path[:, 1:].float()).square().sum((1, 2)).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % max(1, steps // 60) == 0:
            watched.append([step, float(loss.detach())])
    with torch.no_grad():
        fresh = draw(EVALUATION, prompts)
        data = tokens.data_tokens(fresh).float()
        weights = torch.zeros(prompts, 1, d)
        for _ in range(k):
            chain = tokens.chain_tokens(weights.double()).float()
            weights = torch.cat([weights, layer(data, chain)[:, -1:]], 1)
        by_step = [recovery(weights[:, i].double(), fresh) for i in range(k + 1)]
        exact = [recovery(w, fresh) for w in descent(fresh, lr, k).unbind(1)] if lr else []
    return {
        "watched": watched,
        "by_step": [[float(v.mean()) for v in part] for part in (by_step, exact)],
        "median": [float(part[-1].median()) for part in (by_step, exact) if part],
        "floor": one_step_floor(d, n),
    }
