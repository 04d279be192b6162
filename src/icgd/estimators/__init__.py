"""scikit-learn estimators whose fit is a frozen transformer's chain of thought."""

from icgd.estimators.logistic import InContextLogisticRegression as InContextLogisticRegression
from icgd.estimators.mlp import InContextMLPRegressor as InContextMLPRegressor
from icgd.estimators.regression import InContextLasso as InContextLasso
from icgd.estimators.regression import InContextPoissonRegressor as InContextPoissonRegressor
from icgd.estimators.regression import InContextRidge as InContextRidge
