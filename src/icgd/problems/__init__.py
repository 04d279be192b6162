"""The mathematics that compilers and oracles share: models, optimizers, their constants."""

from icgd.problems.network import Network as Network
from icgd.problems.network import NetworkSpec as NetworkSpec
from icgd.problems.network import Weights as Weights
from icgd.problems.optimizers import SGD as SGD
