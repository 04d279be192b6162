"""Reports: figures and a self-contained page, made from a result and nothing else."""

from icgd.report.html import render_report as render_report
from icgd.report.html import write_report as write_report
