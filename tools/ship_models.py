"""Train presets, keep the weights in the package, and write what came out into the presets.

python -m tools.ship_models                      all presets, trained in runs/NAME
python -m tools.ship_models looped_small --from runs/other   one, from a run that is there already
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from icgd.lab.experiments.measures import final, load_run
from icgd.lab.training.checkpoints import check_same_run, export_weights, load_checkpoint
from icgd.lab.training.config import load_config, presets
from icgd.lab.training.trainer import Trained, train

TRAINING = Path(__file__).resolve().parent.parent / "src" / "icgd" / "lab" / "training"
DIGITS = 4
KEPT = ("model", "optimal ridge")
SMALL = 1e-6
"""Below it a number is rounding."""


def ship(name: str, run: Path | None) -> dict[str, float]:
    """Weights of a preset into the package; its expected numbers."""
    config = load_config(name)
    if run is None:
        run = train(config).directory
    check_same_run(load_checkpoint(run), config, run)
    exported = TRAINING / "shipped" / f"{name}.safetensors"
    export_weights(run, exported)
    exported.chmod(0o644)
    model, _, trained = load_run(exported)
    told = final(Trained(model, config, run, trained.training.train_steps, float("nan")))
    return {
        key: float(f"{value:.{DIGITS}g}")
        for key, value in told.items()
        if key.startswith(KEPT) and value > SMALL
    }


def write_expected(name: str, expected: dict[str, float]) -> None:
    """Replace the block `expected` at the end of a preset."""
    path = TRAINING / "presets" / f"{name}.yaml"
    text = re.sub(r"\nexpected:\n(  .*\n)*", "\n", path.read_text(encoding="utf-8")).rstrip("\n")
    lines = "".join(f'  "{key}": {value}\n' for key, value in expected.items())
    path.write_text(f"{text}\nexpected:\n{lines}", encoding="utf-8")


def main() -> None:
    """Ship the presets that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--from", dest="run", type=Path, help="a finished run of the preset")
    given = parser.parse_args()
    if given.run is not None and len(given.names) != 1:
        parser.error("--from is the run of one preset: name it")
    for name in given.names or presets():
        expected = ship(name, given.run)
        write_expected(name, expected)
        print(name, expected)


if __name__ == "__main__":
    main()
