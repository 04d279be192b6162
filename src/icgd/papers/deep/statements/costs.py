"""Checker of what [DEEP] says its stack costs, B.3."""

from __future__ import annotations

from icgd.costs import cost, tables
from icgd.costs.formulas import deep_flops_corrected, deep_flops_order, exponent
from icgd.costs.stacks import stack_dense_flops
from icgd.mechanisms import compile as compile_program
from icgd.papers.theorem_table import Row, checks, judge
from icgd.problems import GD, Network

LARGE = {"n_layers": 256, "width": 512, "n_units": 200}
"""Sizes at which the leading terms are compared with the closed form."""


def units_for(error: float) -> int:
    """ReLUs that certify tanh and tanh' to an error."""
    stack = cost(Network((1, 1, 1), "tanh"), "stack", error=error)
    return stack.sizes["slope"]


def power_of_examples(model: str, n: int = 20_000) -> float:
    """How the operations of one pass of a stack grow from n to 2n examples, in one of the cost models."""
    network = tables.network(3, activation="tanh")

    def operations(examples: int) -> float:
        flops = cost(network, "stack", n_relu=17, n_examples=examples).flops_per_pass[model]
        assert flops is not None
        return float(flops)

    return exponent(operations, n, 2 * n)


def leading_terms() -> float:
    """Relative distance of the corrected leading terms from the closed form, few and many examples."""
    N, K, M = LARGE["n_layers"], LARGE["width"], LARGE["n_units"]
    worst = 0.0
    for n in (10, 10**9):
        exact = stack_dense_flops((K,) * (N + 1), M, n, box=False)
        worst = max(worst, abs(deep_flops_corrected(n, 1, N, K, M) / exact - 1))
    return worst


def counted_equals_closed() -> bool:
    """The closed form against the matrices of compiled stacks."""
    return all(
        compile_program(
            tables.network(n, activation="tanh"), GD(lr=0.1, box=1.0), method="stack", n_relu=9
        ).step.dense_flops(tables.N_EXAMPLES)
        == cost(
            tables.network(n, activation="tanh"), "stack", n_relu=9, n_examples=tables.N_EXAMPLES
        ).flops_per_pass["dense"]
        for n in (2, 5, 8)
    )


@checks("DEEP", "B.3, cost of a stack")
def cost_of_a_stack() -> Row:
    """O(n L N^3 K^5 / eps^2) operations for L steps on n examples.

    Statement: [DEEP] B.3

    Differs from the paper: n L N^3 K^5 + n^2 L N^2 K^3 times the number of ReLUs, which is eps^-1/2. Linear in
    n if sums over tokens that are all alike are made once.
    """
    depth = tables.exponents_in_depth("dense")[-1]
    width, examples = tables.exponents_in_width()[-1], tables.exponents_in_examples()[-1]
    printed = exponent(lambda n: deep_flops_order(n, 1, 3, 4, 0.1), 20_000, 40_000)
    collapsed = power_of_examples("structured")
    few, many = units_for(1e-3), units_for(1e-5)
    in_error = exponent(lambda k: many if k == 100 else few, 1, 100)
    return judge(
        "B.3, cost of a stack",
        "L steps on n examples take O(n L N^3 K^5 / eps^2) operations",
        refuted=examples > printed + 0.5,
        counterexample=f"measured powers: N {depth:.2f}, K {width:.2f} (to 5), but n {examples:.2f} at 20,000 "
        f"examples if all pairs of tokens attend, {collapsed:.2f} if sums over equal keys are made once; 1/eps "
        f"{in_error:.2f} ({few} ReLUs at 1e-3, {many} at 1e-5), where 2 is allowed",
        corrected=f"12 M n L N^3 K^5 + 8 M n^2 L N^2 K^3, M ReLUs a fit: relative distance from the closed "
        f"form at N={LARGE['n_layers']}, K={LARGE['width']}; the closed form equals counted stacks",
        measured=leading_terms(),
        bound=0.03,
        also=counted_equals_closed()
        and 2.9 <= depth <= 3.05
        and 0.45 <= in_error <= 0.55
        and abs(collapsed - 1) < 0.01,
        errata=("DEEP D13",),
    )
