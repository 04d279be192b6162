"""Compiled programs as predictors: gradient descent and Newton's method for least squares on a prompt."""

from __future__ import annotations

import math

import torch
from torch import Tensor

import icgd
from icgd.lab.tasks.batch import Batch
from icgd.oracle.least_squares import gd_path, newton_path

GD, NEWTON = "gradient descent", "Newton"
STEP = 0.3
"""Of compiled gradient descent on the mean over examples: no program may look at the data to choose it."""
MARGIN = 4.0
"""How much longer than sqrt(d) inputs may be; standard normals of 5 dimensions exceed it once in 10^6."""


def compiled_weights(name: str, batch: Batch, iterations: int) -> tuple[Tensor, Tensor]:
    """(K, B, d_y, d_x) weights after 1 .. K steps on all pairs but the last: by the program, and exactly.

    name  "gradient descent" or "Newton"
    """
    n, d = batch.n_points - 1, batch.xs.shape[2]
    X, y = batch.xs[:, :n].double(), batch.ys[:, :n].double()
    problem = icgd.LinearRegression(
        n_features=d, n_examples=n, n_outputs=y.shape[2], x_radius=math.sqrt(d) + MARGIN
    )
    program = icgd.compile(problem, icgd.GD(lr=STEP) if name == GD else icgd.Newton())
    run = program.run(X, y, steps=iterations, record="weights")
    assert run.history is not None
    weights_by_step = torch.stack(
        [weights.reshape(len(X), y.shape[2], d) for weights in run.history]
    )
    return weights_by_step, _exact(program, X, y, iterations)


def compiled_iterates(name: str, batch: Batch, iterations: int) -> tuple[Tensor, Tensor]:
    """(K, B, d_y) predictions of the last position after 1 .. K steps: by the program, and exactly."""
    query = batch.xs[:, -1].double()
    compiled, exact = (
        torch.einsum("kbod,bd->kbo", weights, query)
        for weights in compiled_weights(name, batch, iterations)
    )
    return compiled, exact


def _exact(program: icgd.Program, X: Tensor, y: Tensor, iterations: int) -> Tensor:
    """The same weights by plain arithmetic, prompt by prompt and output by output."""
    optimizer = program.optimizer
    of_prompts = []
    for prompt in range(len(X)):
        of_outputs = []
        for output in range(y.shape[2]):
            given = (X[prompt], y[prompt, :, output])
            if isinstance(optimizer, icgd.Newton):
                path = newton_path(*given, float(optimizer.alpha), iterations)
            else:
                path = gd_path(*given, optimizer.lr, iterations)
            of_outputs.append(torch.stack(path))
        of_prompts.append(torch.stack(of_outputs, 1))
    return torch.stack(of_prompts, 1)
