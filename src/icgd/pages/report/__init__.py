"""Reports: figures and a self-contained page, made from results and nothing else."""

from icgd.pages.report.html import render_report as render_report
from icgd.pages.report.html import write_report as write_report
from icgd.pages.report.write import PaperFigures as PaperFigures
from icgd.pages.report.write import write_comparison as write_comparison
