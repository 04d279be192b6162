"""Data sets of the estimator tests, each loaded once."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.preprocessing import StandardScaler


def standardised(load):
    X, y = load(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="session")
def diabetes():
    return standardised(load_diabetes)


@pytest.fixture(scope="session")
def breast_cancer():
    return standardised(load_breast_cancer)


@pytest.fixture(scope="session")
def iris():
    return standardised(load_iris)


@pytest.fixture(scope="session")
def counts():
    """Poisson counts of a known log-linear model."""
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 5))
    return X, random.poisson(np.exp(X @ [0.5, -0.3, 0.2, 0.0, 0.4] + 1.0))


@pytest.fixture(scope="session")
def linear():
    """A small, well conditioned regression."""
    random = np.random.default_rng(1)
    X = random.normal(size=(60, 4))
    return X, X @ [1.5, -1.0, 0.5, 0.0] + 2.0 + 0.1 * random.normal(size=60)
