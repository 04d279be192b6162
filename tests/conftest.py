"""One thread, shapes checked at run time, hypothesis without deadlines; runs without painted figures."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import hypothesis
import pytest
import torch
from beartype.claw import beartype_packages
from jaxtyping import install_import_hook

# Test files are imported by path; this lets them share `cases`, `typecheck` and tables of cases.
SUPPORT = Path(__file__).parent / "support"
sys.path[:0] = [str(SUPPORT), str(SUPPORT / "tables")]

from typecheck import CONF  # noqa: E402

# Modules whose signatures speak of tensors and classes. Left out are those that take Builder, Codec or
# another protocol (beartype can check only those marked as runtime checkable), and those that meet
# whatever a user passes: there the package's own complaint is wanted, and tested.
CHECKED = [
    "icgd.transformer.certificate",
    "icgd.transformer.gadgets.fits.smooth_functions",
    "icgd.transformer.gadgets.heads.spectral_head",
    "icgd.transformer.layout",
    "icgd.transformer.nn.chain.layer",
    "icgd.transformer.mask_rules",
    "icgd.oracle",
    "icgd.transformer.blocks",
    "icgd.transformer.runtime.cost",
    "icgd.transformer.runtime.watch",
]
SHAPED = ["icgd.transformer.nn.attention"]
"""Modules whose signatures speak of shapes too, which costs several times as much at every call."""
install_import_hook(SHAPED, "typecheck.typechecker")
beartype_packages(CHECKED, conf=CONF)

# A collector that goes through all modules and all tests again and again finds nothing in them.
gc.disable()


def pytest_collection_finish():
    gc.collect()
    gc.freeze()
    gc.enable()


torch.set_num_threads(1)
hypothesis.settings.register_profile("icgd", deadline=None, derandomize=True, database=None)
# A wider search by hand: pytest --hypothesis-profile=icgd-wide
hypothesis.settings.register_profile(
    "icgd-wide", deadline=None, max_examples=2000, database=None, print_blob=True
)
hypothesis.settings.load_profile("icgd")


@pytest.fixture
def unpainted(monkeypatch):
    """Figures are composed and not painted, which takes longer than most runs: for laws about other things."""
    from icgd.pages.report.drawing import draw

    blank = {"png": b"\x89PNG\r\n\x1a\n", "pdf": b"%PDF-", "svg": b"<svg/>"}
    monkeypatch.setattr(draw, "saved", lambda figure, format: blank[format])
