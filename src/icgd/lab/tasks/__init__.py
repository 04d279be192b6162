"""Sources of prompts: tasks, their distributions, and tasks by name."""

from icgd.lab.tasks.base import Task as Task
from icgd.lab.tasks.build import TASKS as TASKS
from icgd.lab.tasks.build import TaskConfig as TaskConfig
from icgd.lab.tasks.build import build_task as build_task
from icgd.lab.tasks.chain import MLPChain as MLPChain
from icgd.lab.tasks.distributions import AnyVectors as AnyVectors
from icgd.lab.tasks.distributions import Gaussian as Gaussian
from icgd.lab.tasks.distributions import Mixture as Mixture
from icgd.lab.tasks.distributions import Sparse as Sparse
from icgd.lab.tasks.distributions import Sphere as Sphere
from icgd.lab.tasks.distributions import StudentT as StudentT
from icgd.lab.tasks.distributions import Uniform as Uniform
from icgd.lab.tasks.distributions import Vectors as Vectors
from icgd.lab.tasks.distributions import two_gaussians as two_gaussians
from icgd.lab.tasks.linear import LinearClassification as LinearClassification
from icgd.lab.tasks.linear import LinearRegression as LinearRegression
from icgd.lab.tasks.linear import LogisticRegression as LogisticRegression
from icgd.lab.tasks.linear import NoisyLinearRegression as NoisyLinearRegression
from icgd.lab.tasks.linear import PoissonRegression as PoissonRegression
from icgd.lab.tasks.linear import QuadraticRegression as QuadraticRegression
from icgd.lab.tasks.linear import SparseLinearRegression as SparseLinearRegression
from icgd.lab.tasks.networks import DecisionTree as DecisionTree
from icgd.lab.tasks.networks import NetworkRegression as NetworkRegression
from icgd.lab.tasks.networks import ReluTwoLayerRegression as ReluTwoLayerRegression
from icgd.lab.tasks.representation import Autoregression as Autoregression
from icgd.lab.tasks.representation import RepresentationRegression as RepresentationRegression
