"""The trace of a run as a file: what the viewer shows, and nothing of what computes it."""

from icgd.transformer.trace.arrays import ArrayStore as ArrayStore
from icgd.transformer.trace.file import read_trace as read_trace
from icgd.transformer.trace.file import write_trace as write_trace
from icgd.transformer.trace.format import FORMAT as FORMAT
from icgd.transformer.trace.format import Trace as Trace
