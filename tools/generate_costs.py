"""Make the tables and the figure of docs/costs.md from the code.

python -m tools.generate_costs            tables and figure
python -m tools.generate_costs --check    say whether the committed tables are what the code computes now
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "costs.md"
FIGURE = ROOT / "docs" / "figures" / "costs.png"
ERRORS = (1e-3, 1e-6, 1e-12)
EXAMPLE = (10, 16, 16, 1)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def number(value: float | None, digits: int = 3) -> str:
    """Three digits, or that there is nothing to say."""
    if value is None:
        return "not reached"
    if float(value).is_integer() and abs(value) < 1e5:
        return f"{value:,.0f}"
    if 0.01 <= abs(value) < 1e5:
        return f"{value:,.{max(0, digits - len(str(int(value))))}f}"
    return f"{value:.{digits - 1}e}"


def ratios() -> str:
    """stack / cot for N = 3, 6, 9, 12, 16, three settings."""
    from icgd.costs import tables
    from icgd.costs.formulas import MODELS

    rows = []
    for activation, error in (("relu", 1e-6), ("tanh", 1e-3), ("tanh", 1e-6)):
        for row in tables.ratio_table(activation, error):
            found = [row.ratio["dense"], row.square, *[row.ratio[m] for m in MODELS[1:]]]
            rows.append(
                [activation, f"{error:.0e}", str(row.n_layers), *[number(v) for v in found]]
            )
    head = [
        "network",
        "error",
        "N",
        "dense",
        "dense, all heads D x D",
        "linear in D",
        "non-zeros",
        "as run",
    ]
    return table(head, rows)


def powers() -> str:
    """Exponents and break-even points of the ratio."""
    from icgd.costs import tables
    from icgd.costs.formulas import MODELS

    rows = []
    for model in MODELS:
        even = [tables.break_even_depth(model, a) for a in ("relu", "tanh")]
        shown = [f"N = {n}" if n is not None else "never (N <= 512)" for n in even]
        power = round(tables.ratio_exponent(model), 2) + 0.0  # no minus zero
        rows.append([model, f"{power:.2f}", *shown])
    head = ["cost model", "power of N in stack / cot", "cot is cheaper from (ReLU)", "(tanh, 1e-6)"]
    return table(head, rows)


def masked() -> str:
    """Full / masked stacks."""
    from icgd.costs import tables

    depths = (4, 8, 16, 32, 64)
    rows = [
        [name, *[number(tables.masked_ratio(n, model)) for n in depths], law]
        for name, model, law in (
            ("dense", "dense", f"{tables.masked_ratio(64) / 64**2:.2f} N²"),
            ("linear in D", "linear", f"{tables.masked_ratio(64, 'linear') / 64:.2f} N"),
            ("non-zeros", "nonzeros", "1"),
        )
    ]
    return table(["full / masked", *[f"N = {n}" for n in depths], "law"], rows)


def growth() -> str:
    """Measured exponents of the stack."""
    from icgd.costs import tables

    rows = []
    for model in ("dense", "linear", "nonzeros", "structured"):
        found = tables.exponents_in_depth(model)
        rows.append([f"N, {model}", "2..16", f"{min(found):.2f} to {max(found):.2f}"])
    rows.append(["K, dense", "16..256", " ".join(f"{e:.2f}" for e in tables.exponents_in_width())])
    rows.append(
        ["n, dense", "20..40,000", " ".join(f"{e:.2f}" for e in tables.exponents_in_examples())]
    )
    return table(["in", "range", "power"], rows)


def methods() -> str:
    """One network, all methods, three errors."""
    import icgd

    rows = []
    for activation in ("relu", "tanh"):
        net = icgd.Network(EXAMPLE, activation)
        for error in ERRORS:
            for method in ("cot", "stack", "forward_mode"):
                if method == "cot" and activation != "relu":
                    continue
                c = icgd.cost(net, method, error=error)  # type: ignore[arg-type]
                sizes = ", ".join(f"{k} {v}" for k, v in c.sizes.items())
                flops = [number(c.flops_per_example[m]) for m in c.flops_per_example]
                heads = "" if c.heads is None else number(sum(c.heads))
                if not c.reached:
                    # One digit: the others are rounding, and differ from processor to processor.
                    sizes, flops = f"not reached: {c.certified:.0e}", [""] * len(flops)
                rows.append(
                    [
                        activation,
                        f"{error:.0e}",
                        method,
                        str(c.layers),
                        heads,
                        str(c.d_token),
                        sizes,
                        number(c.parameters) if c.reached else "",
                        *flops,
                    ]
                )
    plain = icgd.cost(icgd.Network(EXAMPLE), "sgd")
    each = [number(plain.flops_per_example[m]) for m in plain.flops_per_example]
    rows.append(["any", "0", "sgd", str(plain.layers), "", "", "", number(plain.parameters), *each])
    head = [
        "network",
        "error",
        "method",
        "layers",
        "heads",
        "d_token",
        "units",
        "parameters",
        "dense",
        "linear in D",
        "non-zeros",
        "as run",
    ]
    return table(head, rows)


def left_out() -> str:
    """The rows of the chain of thought's own limitations."""
    import icgd

    found = icgd.cost(icgd.Network(EXAMPLE), "cot", error=1e-6)
    rows = [
        [part.name, number(part.per_example), number(part.total), part.unit, part.note]
        for part in found.left_out
    ]
    dense = found.flops_per_example["dense"]
    rows.insert(
        0,
        [
            "the layer itself, dense",
            number(dense),
            number(found.flops_total["dense"]),
            "FLOPs",
            "counted",
        ],
    )
    return table(["what", "per example", "100 passes over 20 examples", "unit", ""], rows)


def searching() -> str:
    """Rounds from which on the search costs more than the layer."""
    from icgd.costs import tables

    depths = (3, 6, 9, 12, 16)
    rows = [["round", *[number(tables.break_even_rounds(n)) for n in depths]]]
    return table(["searching overtakes the dense layer from", *[f"N = {n}" for n in depths]], rows)


def trade() -> str:
    """Depth against heads: both stacks at equal units."""
    from icgd.costs.formulas import Heads
    from icgd.costs.stacks import ForwardFits, StackFits, forward_bill, stack_bill

    rows = []
    for n in (2, 3, 4, 6, 9):
        widths = (3, *(4,) * (n - 1), 1)
        deep = stack_bill(widths, StackFits.uniform(n, 100))
        bridge = forward_bill(widths, ForwardFits.uniform(100, 100, 80))
        attention = sum(part.n_heads for part in deep.parts if isinstance(part, Heads))
        rows.append(
            [
                str(n),
                str(deep.n_layers),
                str(deep.d_token),
                f"{attention:,}",
                str(bridge.n_layers),
                str(bridge.d_token),
                f"{bridge.n_heads:,}",
                number(bridge.flops(21) / deep.flops(21)),
                number(bridge.flops(21, "nonzeros") / deep.flops(21, "nonzeros")),
            ]
        )
    head = [
        "N",
        "[DEEP] layers",
        "D",
        "attention heads",
        "[BRIDGE] layers",
        "D",
        "heads",
        "BRIDGE / DEEP, dense",
        "non-zeros",
    ]
    return table(head, rows)


BLOCKS: dict[str, Callable[[], str]] = {
    "ratios": ratios,
    "powers": powers,
    "masked": masked,
    "growth": growth,
    "methods": methods,
    "left_out": left_out,
    "searching": searching,
    "trade": trade,
}


def filled(page: str, blocks: dict[str, Callable[[], str]] | None = None) -> str:
    """The page with every table between its markers made anew."""
    for name, make in (blocks or BLOCKS).items():
        pattern = re.compile(rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
        if len(pattern.findall(page)) != 1:
            raise SystemExit(f"docs/costs.md must have one pair of markers for {name!r}.")
        made = make()
        page = pattern.sub(lambda found, made=made: f"{found[1]}{made}\n{found[2]}", page)
    return page


def figure() -> bytes:
    """Operations against N and memory against L, as PNG."""
    import icgd
    from icgd.costs import tables
    from icgd.pages.report.drawing.cost_figures import growth_figure

    depths = range(2, 17)
    found = {
        method: [
            icgd.cost(tables.network(n), method, error=error, n_examples=tables.N_EXAMPLES)  # type: ignore[arg-type]
            for n in depths
        ]
        for method, error in (("stack", 1e-6), ("forward_mode", None), ("cot", 1e-6), ("sgd", None))
    }

    def curve(method: str, model: str) -> list[float]:
        return [float(c.flops_per_example[model] or float("nan")) for c in found[method]]

    by_depth = {
        "BRIDGE, dense": ("forward_mode", "-", curve("forward_mode", "dense")),
        "DEEP, dense (N³)": ("stack", "-", curve("stack", "dense")),
        "DEEP, linear in D (N²)": ("stack", "--", curve("stack", "linear")),
        "DEEP, non-zeros (N)": ("stack", ":", curve("stack", "nonzeros")),
        "DEEP, structured (N)": ("stack", "-.", curve("stack", "structured")),
        "COT, dense (N)": ("cot", "-", curve("cot", "dense")),
        "COT, structured (N)": ("cot", ":", curve("cot", "structured")),
        "plain SGD (N)": ("sgd", "-", curve("sgd", "dense")),
    }
    passes = [2**k for k in range(11)]
    deep, cot = found["stack"][4], found["cot"][4]  # N = 6

    def prompt(steps: int) -> float:
        other = icgd.cost(tables.network(6), "cot", error=1e-6, steps=steps)
        return next(part.total for part in other.left_out if part.name == "prompt kept whole")

    bytes_of = {
        "DEEP": float(deep.memory_bytes["dense"] or 0),
        "COT": float(cot.memory_bytes["dense"] or 0),
    }
    by_steps = {
        "DEEP, L copies of the layers": ("stack", "-", [bytes_of["DEEP"] * n for n in passes]),
        "DEEP, one copy used L times": ("stack", "--", [bytes_of["DEEP"]] * len(passes)),
        "COT, the one layer": ("cot", "-", [bytes_of["COT"]] * len(passes)),
        "COT, the prompt kept whole": ("cot", "--", [prompt(n) for n in passes]),
        "COT, live blocks": ("cot", ":", [float(cot.state_bytes)] * len(passes)),
    }
    return growth_figure(list(depths), by_depth, passes, by_steps)


def main(arguments: list[str]) -> None:
    """Write the tables and the figure, or check the tables."""
    page = PAGE.read_text(encoding="utf-8")
    made = filled(page)
    if "--check" in arguments:
        if made != page:
            raise SystemExit("docs/costs.md is not what the code computes: run `make costs`.")
        return
    PAGE.write_text(made, encoding="utf-8")
    FIGURE.write_bytes(figure())


if __name__ == "__main__":
    main(sys.argv[1:])
