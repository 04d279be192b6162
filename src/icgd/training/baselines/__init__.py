"""Predictors that need no training of a transformer: every position from its own prefix."""

from icgd.training.baselines.iterates import GradientDescent as GradientDescent
from icgd.training.baselines.iterates import NewtonIterations as NewtonIterations
from icgd.training.baselines.linear import Averaging as Averaging
from icgd.training.baselines.linear import Lasso as Lasso
from icgd.training.baselines.linear import LeastSquares as LeastSquares
from icgd.training.baselines.linear import Ridge as Ridge
from icgd.training.baselines.linear import optimal_ridge as optimal_ridge
from icgd.training.baselines.neighbours import NearestNeighbours as NearestNeighbours
from icgd.training.baselines.prefix import Baseline as Baseline
from icgd.training.baselines.prefix import Prefix as Prefix
from icgd.training.baselines.prefix import prefix_of as prefix_of
from icgd.training.baselines.prompt_network import NetworkFit as NetworkFit
from icgd.training.baselines.prompt_network import PromptNetwork as PromptNetwork
