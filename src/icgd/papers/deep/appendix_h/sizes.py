"""DEEP, Appendix H: settings of the experiment at every scale."""

from __future__ import annotations

from dataclasses import dataclass

from icgd.lab.experiments.experiment import Size


@dataclass(frozen=True, kw_only=True)
class ScoreSize(Size):
    """Settings of Appendix H.

    width, hidden  units of a hidden layer, hidden layers; `cot_width` of the chain of thought's network
    examples       in the prompt of the stack
    steps, lr      of gradient descent on all of them, by the stack
    rounds, cot_lr of the chain of thought: a round for an example, each seen once
    noise_examples, noise_steps, noise_cot_lr  the same where examples show noise instead of the score
    early          how much more often early times are seen: t = T_0 + (T_1 - T_0) u^early
    n_relu         units of each function that a stack fits; ReLU needs one or two, and is exact
    fresh          points on which R2 is measured
    samples        of every sampler
    sampler_steps  of the reverse process
    points         of each sample in the picture
    """

    width: int
    hidden: int
    examples: int
    steps: int
    lr: float
    cot_width: int
    rounds: int
    cot_lr: float
    noise_examples: int
    noise_steps: int
    noise_cot_lr: float
    early: float
    n_relu: int
    fresh: int
    samples: int
    sampler_steps: int
    points: int


SMOKE = ScoreSize(
    seeds=1,
    width=4,
    hidden=2,
    examples=8,
    steps=8,
    lr=0.5,
    cot_width=4,
    rounds=20,
    cot_lr=0.05,
    noise_examples=16,
    noise_steps=8,
    noise_cot_lr=0.02,
    early=2.0,
    n_relu=17,
    fresh=50,
    samples=40,
    sampler_steps=4,
    points=20,
)
LAPTOP = ScoreSize(
    seeds=3,
    width=16,
    hidden=2,
    examples=256,
    steps=8000,
    lr=0.25,
    cot_width=32,
    rounds=40_000,
    cot_lr=0.1,
    noise_examples=512,
    noise_steps=4500,
    noise_cot_lr=0.03,
    early=2.0,
    n_relu=257,
    fresh=4000,
    samples=4000,
    sampler_steps=100,
    points=200,
)
OVERNIGHT = ScoreSize(
    seeds=5,
    width=24,
    hidden=2,
    examples=512,
    steps=30_000,
    lr=0.25,
    cot_width=64,
    rounds=200_000,
    cot_lr=0.05,
    noise_examples=1024,
    noise_steps=15_000,
    noise_cot_lr=0.02,
    early=2.0,
    n_relu=257,
    fresh=4000,
    samples=8000,
    sampler_steps=200,
    points=200,
)
PAPER = ScoreSize(
    seeds=5,
    width=32,
    hidden=2,
    examples=1024,
    steps=100_000,
    lr=0.25,
    cot_width=64,
    rounds=400_000,
    cot_lr=0.05,
    noise_examples=4096,
    noise_steps=50_000,
    noise_cot_lr=0.02,
    early=2.0,
    n_relu=257,
    fresh=4000,
    samples=8000,
    sampler_steps=200,
    points=200,
)
