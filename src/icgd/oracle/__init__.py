"""Exact optimizers: the oracle that judges compiled programs."""

from icgd.oracle.gd import gd_step as gd_step
from icgd.oracle.gd import gd_steps as gd_steps
from icgd.oracle.gd import minimiser as minimiser
from icgd.oracle.network_gd import network_gd_step as network_gd_step
from icgd.oracle.network_gd import network_gd_steps as network_gd_steps
from icgd.oracle.sgd import sgd_epochs as sgd_epochs
from icgd.oracle.sgd import sgd_round as sgd_round
from icgd.oracle.sgd import sgd_rounds as sgd_rounds
from icgd.oracle.sgd import torch_network as torch_network
