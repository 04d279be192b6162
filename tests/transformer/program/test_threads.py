"""One program serves several threads: nothing of a run is kept in the program or its codec."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import icgd


def data(n, d=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(n, d, generator=generator, dtype=torch.float64) - 0.5
    return X, (X[:, 0] > 0).double()


def linear(kind):
    problem = {
        "ridge": lambda: icgd.Ridge(3, lam=0.1),
        "logistic": lambda: icgd.GLM(3, "logistic", intercept=True),
        "poisson": lambda: icgd.GLM(3, "poisson"),
    }[kind]()
    program = icgd.compile(problem, icgd.GD(0.1))
    return program, program.run(*data(8), steps=3).weights


def network(method):
    net = icgd.Network((3, 4, 1))
    optimizer = icgd.SGD(0.1) if method == "cot" else icgd.GD(0.1)
    return icgd.compile(net, optimizer, method=method), net.init(0)


PROGRAMS = {
    **{kind: (lambda kind=kind: linear(kind)) for kind in ("ridge", "logistic", "poisson")},
    **{method: (lambda method=method: network(method)) for method in ("cot", "stack")},
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_four_threads_predict_what_one_does(name):
    program, weights = PROGRAMS[name]()
    rows = [data(n, seed=n)[0] for n in (1, 2, 5, 9)]
    alone = [program.predict(X, weights) for X in rows]
    with ThreadPoolExecutor(4) as pool:
        jobs = [(i % 4, pool.submit(program.predict, rows[i % 4], weights)) for i in range(60)]
    for i, job in jobs:
        assert torch.equal(job.result(), alone[i])


@pytest.mark.parametrize("name", PROGRAMS)
def test_four_threads_train_what_one_does(name):
    program, weights = PROGRAMS[name]()
    sets = [data(n, seed=n) for n in (2, 3, 4, 5)]

    def train(i):
        X, y = sets[i]
        if name in ("cot", "stack"):
            how = {"init": weights} | ({"steps": 2} if name == "stack" else {})
            return program.run(X, y.unsqueeze(-1), **how).weights[0][0]
        return program.run(X, y, steps=2).weights

    alone = [train(i) for i in range(4)]
    with ThreadPoolExecutor(4) as pool:
        jobs = [(i % 4, pool.submit(train, i % 4)) for i in range(12)]
    for i, job in jobs:
        assert torch.equal(job.result(), alone[i])


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_codec_is_the_same_after_use(name):
    program, weights = PROGRAMS[name]()
    kept = {k: v for k, v in vars(program.codec).items() if not callable(v)}
    before = copy.copy(kept)
    program.predict(data(4)[0], weights)
    after = {k: v for k, v in vars(program.codec).items() if not callable(v)}
    assert after.keys() == before.keys()
    assert all(after[k] is before[k] for k in before)
