"""Every experiment under its name."""

from __future__ import annotations

from icgd.experiments.algo_fig2 import AlgoFig2
from icgd.experiments.algo_fig3 import AlgoFig3
from icgd.experiments.algo_fig4 import AlgoFig4
from icgd.experiments.algo_fig5 import AlgoFig5
from icgd.experiments.algo_nmt import AlgoNmt
from icgd.experiments.bridge_resources import BridgeResources
from icgd.experiments.cot_d import CotD
from icgd.experiments.deep_g1 import DeepG1
from icgd.experiments.deep_g2 import DeepG2
from icgd.experiments.deep_g3 import DeepG3
from icgd.experiments.deep_h import DeepH
from icgd.experiments.experiment import Experiment
from icgd.experiments.lsa_train import LsaTrain
from icgd.experiments.names import check_name

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        CotD(), DeepG1(), DeepG2(), DeepG3(), DeepH(), BridgeResources(), AlgoFig2(), AlgoFig3(),
        AlgoFig4(), AlgoFig5(), AlgoNmt(), LsaTrain(),
    )
}  # fmt: skip


def find_experiment(name: str) -> Experiment:
    """The experiment of this name."""
    check_name(name)
    return EXPERIMENTS[name]
