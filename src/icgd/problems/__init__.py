"""The mathematics that compilers and oracles share: models, optimizers, their constants."""

from icgd.problems.linear_models import GLM as GLM
from icgd.problems.linear_models import Lasso as Lasso
from icgd.problems.linear_models import LinearModel as LinearModel
from icgd.problems.linear_models import LinearModelSpec as LinearModelSpec
from icgd.problems.linear_models import Ridge as Ridge
from icgd.problems.losses import Loss as Loss
from icgd.problems.losses import huber as huber
from icgd.problems.losses import joint_loss as joint_loss
from icgd.problems.losses import link_loss as link_loss
from icgd.problems.losses import margin_loss as margin_loss
from icgd.problems.losses import residual_loss as residual_loss
from icgd.problems.network import Network as Network
from icgd.problems.network import NetworkSpec as NetworkSpec
from icgd.problems.network import Weights as Weights
from icgd.problems.optimizers import GD as GD
from icgd.problems.optimizers import SGD as SGD
from icgd.problems.optimizers import Newton as Newton
from icgd.problems.optimizers import PreconditionedGD as PreconditionedGD
from icgd.problems.regression import Autoregression as Autoregression
from icgd.problems.regression import LinearRegression as LinearRegression
from icgd.problems.regression import MLPChain as MLPChain
from icgd.problems.regression import RepresentationRegression as RepresentationRegression
