"""`icgd bench cot`, `linear-models` and `machine`: options here, measurements in benchmarks/."""

from __future__ import annotations

from icgd.cli.guard import one_line_errors
from icgd.cli.options import JsonOption


def bench_cot(
    json: JsonOption = None,
) -> None:
    """Time chain-of-thought training against torch.optim.SGD, and count its operations."""
    with one_line_errors():
        from icgd.cli.output import check_file

        if json is not None:
            check_file("--json", json)
        from icgd.cli.benchmarks.cot import bench_cot as job

        job(json)


def bench_linear_models(
    json: JsonOption = None,
) -> None:
    """Time linear models in context against plain loops, and their memory against a stack of layers."""
    with one_line_errors():
        from icgd.cli.output import check_file

        if json is not None:
            check_file("--json", json)
        from icgd.cli.benchmarks.linear_models import bench_linear_models as job

        job(json)


def bench_machine(
    json: JsonOption = None,
) -> None:
    """Time an update of a compiled training step against eager PyTorch with the same optimizer."""
    with one_line_errors():
        from icgd.cli.output import check_file

        if json is not None:
            check_file("--json", json)
        from icgd.cli.benchmarks.machine import bench_machine as job

        job(json)
