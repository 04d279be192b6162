"""Exact optimizers: the oracle that judges compiled programs."""

from icgd.reference.sgd import sgd_rounds as sgd_rounds
