"""Predictors that need no training of a transformer: every position from its own prefix."""

from icgd.lab.baselines.iterates import GradientDescent as GradientDescent
from icgd.lab.baselines.iterates import NewtonIterations as NewtonIterations
from icgd.lab.baselines.linear import Averaging as Averaging
from icgd.lab.baselines.linear import Lasso as Lasso
from icgd.lab.baselines.linear import LeastSquares as LeastSquares
from icgd.lab.baselines.linear import Ridge as Ridge
from icgd.lab.baselines.linear import optimal_ridge as optimal_ridge
from icgd.lab.baselines.neighbours import NearestNeighbours as NearestNeighbours
from icgd.lab.baselines.prefix import Baseline as Baseline
from icgd.lab.baselines.prefix import Prefix as Prefix
from icgd.lab.baselines.prefix import prefix_of as prefix_of
from icgd.lab.baselines.prompt_network import NetworkFit as NetworkFit
from icgd.lab.baselines.prompt_network import PromptNetwork as PromptNetwork
