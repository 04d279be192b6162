"""Sources of prompts: tasks, their distributions, and tasks by name."""

from icgd.training.tasks.base import Task as Task
from icgd.training.tasks.build import TASKS as TASKS
from icgd.training.tasks.build import TaskConfig as TaskConfig
from icgd.training.tasks.build import build_task as build_task
from icgd.training.tasks.chain import MLPChain as MLPChain
from icgd.training.tasks.distributions import AnyVectors as AnyVectors
from icgd.training.tasks.distributions import Gaussian as Gaussian
from icgd.training.tasks.distributions import Mixture as Mixture
from icgd.training.tasks.distributions import Sparse as Sparse
from icgd.training.tasks.distributions import Sphere as Sphere
from icgd.training.tasks.distributions import StudentT as StudentT
from icgd.training.tasks.distributions import Uniform as Uniform
from icgd.training.tasks.distributions import Vectors as Vectors
from icgd.training.tasks.distributions import two_gaussians as two_gaussians
from icgd.training.tasks.linear import LinearClassification as LinearClassification
from icgd.training.tasks.linear import LinearRegression as LinearRegression
from icgd.training.tasks.linear import LogisticRegression as LogisticRegression
from icgd.training.tasks.linear import NoisyLinearRegression as NoisyLinearRegression
from icgd.training.tasks.linear import PoissonRegression as PoissonRegression
from icgd.training.tasks.linear import QuadraticRegression as QuadraticRegression
from icgd.training.tasks.linear import SparseLinearRegression as SparseLinearRegression
from icgd.training.tasks.networks import DecisionTree as DecisionTree
from icgd.training.tasks.networks import NetworkRegression as NetworkRegression
from icgd.training.tasks.networks import ReluTwoLayerRegression as ReluTwoLayerRegression
from icgd.training.tasks.representation import Autoregression as Autoregression
from icgd.training.tasks.representation import RepresentationRegression as RepresentationRegression
