"""The Program type: frozen layers bound to a layout, a mask rule and a codec."""

from icgd.transformer.program.blueprint import Blueprint as Blueprint
from icgd.transformer.program.program import Program as Program
from icgd.transformer.program.run import Run as Run
