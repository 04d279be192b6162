"""Small models and prompts shared by the tests of the laboratory's models."""

from __future__ import annotations

import torch

from icgd.lab.models.build import build_model
from icgd.lab.models.config import ModelConfig
from icgd.lab.tasks.batch import Batch

KINDS = {
    "standard": {"kind": "standard", "n_layer": 2},
    "looped": {"kind": "looped", "n_layer": 1, "loops": 4, "window": 2},
    "looped-bare": {"kind": "looped", "n_layer": 2, "loops": 3, "inject": False},
    "algoformer": {"kind": "algoformer", "n_layer": 1, "loops": 4, "window": 2},
    "algoformer-bare": {
        "kind": "algoformer",
        "n_layer": 2,
        "n_pre": 1,
        "n_post": 3,
        "loops": 2,
        "inject": False,
    },
}
LAYOUTS = ("interleaved", "concatenated", "series")
ATTENTIONS = ("softmax", "relu", "linear")


def make(*, seed=0, d_x=3, d_y=2, spread=0.0, **settings):
    """A float64 model; `spread` moves every weight, so that biases and norms are not 0 and 1."""
    settings = {"n_layer": 1, "n_head": 2, "n_embd": 8, "n_positions": 9} | settings
    generator = torch.Generator().manual_seed(seed)
    model = build_model(ModelConfig(**settings), d_x, d_y, generator=generator).double()
    with torch.no_grad():
        for p in model.parameters():
            p += spread * torch.randn(p.shape, generator=generator, dtype=p.dtype)
    return model


def prompts(model, *, n=6, n_batch=3, seed=1, counted=None):
    generator = torch.Generator().manual_seed(seed)
    xs = torch.randn(n_batch, n, model.d_x, generator=generator, dtype=torch.float64)
    ys = torch.randn(n_batch, n, model.d_y, generator=generator, dtype=torch.float64)
    return Batch(xs, ys, "series" if model.config.layout == "series" else "pairs", counted)


def predict(model, batch, **settings):
    with torch.no_grad():
        return model(batch.xs, batch.ys, batch.kind, **settings)
