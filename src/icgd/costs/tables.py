"""Tables over N for docs/costs.md and the theorem table: who is cheaper, and how it grows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from icgd.costs.account import cost
from icgd.costs.cot import CotSizes, PromptCosts, cot_calls, scan_flops
from icgd.costs.formulas import MODELS, Bill, exponent
from icgd.costs.stacks import StackFits, stack_bill
from icgd.problems import Network

DEPTHS = (3, 6, 9, 12, 16)
N_EXAMPLES = 20
WIDTH, D_DATA = 4, 3
N_UNITS = 17
"""Units per fit where only growth matters: 16 segments of a piecewise linear function."""


def network(n_layers: int, width: int = WIDTH, activation: str = "relu") -> Network:
    """d_x = d_y = 3, hidden layers of one width, no bias: the networks of [DEEP] Theorem 1."""
    return Network((D_DATA, *(width,) * (n_layers - 1), D_DATA), activation, bias=False)


@dataclass(frozen=True)
class RatioRow:
    """stack / cot, operations per example-gradient, by model; None where an error is out of reach.

    square  dense with D x D heads on both sides: [COT] does not say how wide its heads are
    """

    n_layers: int
    ratio: dict[str, float | None]
    square: float | None


def ratio_row(
    n_layers: int, activation: str = "relu", error: float | None = 1e-6, width: int = WIDTH
) -> RatioRow:
    """How many times as many operations the stack takes as the chain of thought.

    Statement: [COT] Remark 4.1

    Differs from the paper: one ratio for each cost model; the chain of thought always trains the ReLU
    network, for which alone it is built.
    """
    net = network(n_layers, width, activation)
    stack = cost(net, "stack", error=error, n_examples=N_EXAMPLES)
    cot = cost(net, "cot", error=error, n_examples=N_EXAMPLES)
    ratios: dict[str, float | None] = {}
    for model in MODELS:
        above, below = stack.flops_per_example[model], cot.flops_per_example[model]
        ratios[model] = None if above is None or below is None else above / below
    square = None
    dense = stack.flops_per_example["dense"]
    if dense is not None and cot.reached:
        sizes = CotSizes(width, False, True, cot.sizes["n_grid"])
        square = dense / (cot_calls(n_layers) * sizes.call_flops(square=True))
    return RatioRow(n_layers, ratios, square)


def ratio_table(activation: str = "relu", error: float | None = 1e-6) -> list[RatioRow]:
    """The rows for N = 3, 6, 9, 12, 16."""
    return [ratio_row(n, activation, error) for n in DEPTHS]


def growing_stack(n_layers: int, width: int = WIDTH) -> Bill:
    """The stack of a network with smooth activations, 17 units per fit."""
    return stack_bill(network(n_layers, width).widths, StackFits.uniform(n_layers, N_UNITS))


def masked_ratio(n_layers: int, model: str = "dense", width: int = WIDTH) -> float:
    """Full / masked: what a stack saves if every layer carries only the slots it reads and writes.

    Statement: [COT] Remark 4.1

    Differs from the paper: about 0.82 N^2 with dense heads and 0.83 N with cost linear in D, where it
    says O(N).
    """
    bill = growing_stack(n_layers, width)
    return bill.flops(N_EXAMPLES + 1, model) / bill.masked_flops(N_EXAMPLES + 1, model)


def exponents_in_depth(model: str, low: int = 2, high: int = 16) -> list[float]:
    """Powers of N with which a stack's step grows, from N to N + 1."""
    return [
        exponent(lambda n: growing_stack(n).flops(N_EXAMPLES + 1, model), n, n + 1)
        for n in range(low, high)
    ]


def exponents_in_width(
    model: str = "dense", widths: tuple[int, ...] = (16, 32, 64, 128)
) -> list[float]:
    """Powers of K, from K to 2K, at N = 3."""
    return [
        exponent(lambda k: growing_stack(3, k).flops(N_EXAMPLES + 1, model), k, 2 * k)
        for k in widths
    ]


def exponents_in_examples(counts: tuple[int, ...] = (20, 200, 2_000, 20_000)) -> list[float]:
    """Powers of n, from n to 2n, at N = 3, K = 4: attention between all examples is quadratic."""
    bill = growing_stack(3)
    return [exponent(lambda n: bill.flops(n + 1), n, 2 * n) for n in counts]


def ratio_exponent(model: str, activation: str = "relu", low: int = 32, high: int = 64) -> float:
    """The power of N in stack / cot."""

    def ratio(n: int) -> float:
        row = ratio_row(n, activation, error=1e-6)
        value = row.ratio[model]
        assert value is not None
        return value

    return exponent(ratio, low, high)


def break_even_depth(model: str, activation: str = "relu", most: int = 512) -> int | None:
    """The smallest N at which the stack takes more operations than the chain of thought; None: none."""
    low, high = 2, most

    def above(n: int) -> bool:
        ratio = ratio_row(n, activation, error=1e-6).ratio[model]
        return ratio is not None and ratio > 1

    if not above(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if above(middle) else (middle + 1, high)
    return low


def break_even_rounds(n_layers: int, width: int = WIDTH, n_grid: int = 32) -> int:
    """Rounds from which on searching the prompt for its two blocks costs more than the dense layer."""
    sizes = replace(CotSizes(width, False, True), n_grid=n_grid)
    layer = cot_calls(n_layers) * sizes.call_flops()

    def searched(rounds: int) -> bool:
        looks = PromptCosts.after(rounds=rounds, n_layers=n_layers).looks
        return scan_flops(sizes, looks) > rounds * layer

    high = 1
    while not searched(high):
        high *= 2
    low = high // 2
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if searched(middle) else (middle + 1, high)
    return low
