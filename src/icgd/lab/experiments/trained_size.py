"""Sizes of experiments that train models: what a scale chooses, and the configuration of one training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from icgd.lab.experiments.experiment import Size
from icgd.lab.training.config import Config, make_config


@dataclass(frozen=True, kw_only=True)
class TrainedSize(Size):
    """Settings of trainings.

    n_dims, n_points    of the prompts a model is trained on
    n_layer .. init_std of the models
    steps, batch, rate, schedule  of the training
    prompts             on which trained models are measured
    """

    n_dims: int
    n_points: int
    n_layer: int
    n_head: int
    n_embd: int
    d_mlp: int | None = None
    init_std: float
    steps: int
    batch: int
    rate: float
    schedule: str = "cosine"
    prompts: int

    def config(
        self, *, model: dict[str, Any], task: dict[str, Any], seed: int, n_points: int | None = None
    ) -> Config:
        """The configuration of one training; `model` and `task` add to what the size says."""
        short = self.schedule == "cosine"
        points = n_points or self.n_points
        return make_config(
            {
                "model": {
                    "n_layer": self.n_layer,
                    "n_head": self.n_head,
                    "n_embd": self.n_embd,
                    "d_mlp": self.d_mlp,
                    "n_positions": points,
                    "init_std": self.init_std,
                    **model,
                },
                "task": {"n_dims": self.n_dims, **task},
                "training": {
                    "batch_size": self.batch,
                    "learning_rate": self.rate,
                    "train_steps": self.steps,
                    "n_points": points,
                    "schedule": self.schedule,
                    "warmup_steps": min(100, self.steps // 10) if short else 0,
                    "grad_clip": 1.0,
                    "threads": 1,
                    "seed": seed,
                    "save_every_steps": 500,
                    "log_every_steps": max(1, min(100, self.steps // 10)),
                },
            }
        )
