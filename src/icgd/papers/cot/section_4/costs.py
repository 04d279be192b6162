"""Checker of the headline of [COT]: O(N) fewer operations than the (2N+4)-layer stack."""

from __future__ import annotations

from icgd.costs import tables
from icgd.papers.theorem_table import Row, checks, judge

STATEMENT = "Remark 4.1, O(N) saving"

EXPECTED = {"dense": 2.0, "linear": 1.0, "nonzeros": 0.0, "structured": 0.0}
"""Powers of N that should be in stack / chain of thought, by cost model."""


@checks("COT", "Remark 4.1, O(N) saving")
def saving_of_a_power_of_n() -> Row:
    """O(N) fewer operations than a stack, because only two weight matrices are processed at a time.

    Statement: [COT] Remark 4.1

    Differs from the paper: N where cost is linear in D, which is how the remark argues; N^2 where heads
    are D x D, nothing where zeros are not multiplied.
    """
    powers = {model: tables.ratio_exponent(model) for model in EXPECTED}
    row = tables.ratio_row(16)
    powers_and_ratios = ", ".join(
        f"{model} N^{powers[model]:.2f} ({ratio:.2g} at N=16)"
        for model, ratio in row.ratio.items()
        if ratio is not None
    )
    even = tables.break_even_depth("linear")
    rounds = tables.break_even_rounds(3)
    return judge(
        STATEMENT,
        "dynamic masking reduces the total computation of the (2N+4)L stack by O(N)",
        refuted=powers["nonzeros"] < 0.1
        and powers["dense"] > 1.9
        and abs(powers["linear"] - 1) < 0.05,
        counterexample=f"it names no cost model; with cost linear in D, as it argues, it holds; "
        f"stack / chain of thought per example, ReLU network, K=4, 1e-6: {powers_and_ratios}; linear in D "
        f"the chain is ahead from N={even} on; left out: searching the prompt costs more than the layer from "
        f"round {rounds} on (N=3)",
        corrected="the power of N is 2, 1, 0 and 0 with cost D^2, D, non-zeros and as run: largest deviation",
        measured=max(abs(powers[model] - EXPECTED[model]) for model in EXPECTED),
        bound=0.05,
        also=rounds > 0,
        errata=("COT 39",),
    )
