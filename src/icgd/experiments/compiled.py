"""Compiled programs as predictors: gradient descent and Newton's method for least squares on a prompt."""

from __future__ import annotations

import math

import torch
from torch import Tensor

import icgd
from icgd.reference.least_squares import gd_path, newton_path
from icgd.training.batch import Batch

STEP = 0.3
"""Of compiled gradient descent on the mean over examples: no program may look at the data to choose it."""
MARGIN = 4.0
"""How much longer than sqrt(d) inputs may be; standard normals of 5 dimensions exceed it once in 10^6."""


def compiled_iterates(name: str, batch: Batch, iterations: int) -> tuple[Tensor, Tensor]:
    """(K, B, d_y) predictions of the last position after 1 .. K steps: by the program, and exactly.

    name  "gradient descent" or "Newton"
    """
    n, d = batch.n_points - 1, batch.xs.shape[2]
    X, y, query = batch.xs[:, :n].double(), batch.ys[:, :n].double(), batch.xs[:, n:].double()
    problem = icgd.LinearRegression(
        n_features=d, n_examples=n, n_outputs=y.shape[2], x_radius=math.sqrt(d) + MARGIN
    )
    optimizer = icgd.GD(lr=STEP) if name == "gradient descent" else icgd.Newton()
    program = icgd.compile(problem, optimizer)
    made = []
    for k in range(1, iterations + 1):
        predicted = program.run(X, y, steps=k, query=query).prediction
        assert predicted is not None
        made.append(predicted.reshape(y[:, 0].shape))
    return torch.stack(made), _exact(program, X, y, query[:, 0], iterations)


def _exact(program: icgd.Program, X: Tensor, y: Tensor, query: Tensor, iterations: int) -> Tensor:
    """(K, B, d_y), prompt by prompt and output by output."""
    told = program.config["optimizer"]
    of_prompts = []
    for prompt in range(len(X)):
        of_outputs = []
        for output in range(y.shape[2]):
            given = (X[prompt], y[prompt, :, output])
            newton = told["name"] == "Newton"
            path = (
                newton_path(*given, told["alpha"], iterations)
                if newton
                else gd_path(*given, told["lr"], iterations)
            )
            of_outputs.append(torch.stack(path) @ query[prompt])
        of_prompts.append(torch.stack(of_outputs, -1))
    return torch.stack(of_prompts, 1)
