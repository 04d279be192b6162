"""Every experiment under its name."""

from __future__ import annotations

from icgd.lab.experiments.experiment import Experiment
from icgd.papers.algo.experiments.fig2 import AlgoFig2
from icgd.papers.algo.experiments.fig3 import AlgoFig3
from icgd.papers.algo.experiments.fig4 import AlgoFig4
from icgd.papers.algo.experiments.fig5 import AlgoFig5
from icgd.papers.algo.experiments.nmt import AlgoNmt
from icgd.papers.bridge.experiment.experiment import BridgeResources
from icgd.papers.cot.appendix_d.experiment import CotD
from icgd.papers.deep.appendix_g.g1 import DeepG1
from icgd.papers.deep.appendix_g.g2 import DeepG2
from icgd.papers.deep.appendix_g.g3 import DeepG3
from icgd.papers.deep.appendix_h.experiment import DeepH
from icgd.papers.lsa.experiment.experiment import LsaTrain
from icgd.papers.names import check_name

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        CotD(),
        DeepG1(),
        DeepG2(),
        DeepG3(),
        DeepH(),
        BridgeResources(),
        AlgoFig2(),
        AlgoFig3(),
        AlgoFig4(),
        AlgoFig5(),
        AlgoNmt(),
        LsaTrain(),
    )
}


def find_experiment(name: str) -> Experiment:
    """The experiment of this name."""
    check_name(name)
    return EXPERIMENTS[name]
