"""docs/figures/machine.svg: a training step as a tape of instructions, and the one layer that executes them.

python -m tools.docs_machine

The tape is that of a linear model with two features, trained by SGD with momentum, as the compiler writes it. A
test draws the picture again and compares.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

from icgd.mechanisms.machine.tape.instruction import HEADS, LINEAR, Instruction
from icgd.mechanisms.machine.tape.tape import Tape
from icgd.pages.colours import AMBER, BLUE, GREEN, GREY, Hue

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "figures" / "machine.svg"
WIDTH, ROW, LEFT, TAPE = 1000, 27, 16, 560
LAYER = 640
"""Where the column of the layer begins."""
BATCH = 4


def example_tape() -> Tape:
    """One round of SGD with momentum on a linear model."""
    import torch
    from torch import nn

    import icgd
    from icgd.mechanisms.machine.capture.textbook import training_step

    model = nn.Linear(2, 1).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step = training_step(model, optimizer, nn.functional.mse_loss)
    X, y = (torch.ones(BATCH, n, dtype=torch.float64) for n in (2, 1))
    traced = icgd.trace(step, model=model, optimizer=optimizer, example=(X, y))
    return traced.tapes.tapes[f"step:{BATCH}"]


def hue(instruction: Instruction) -> Hue:
    """Blue: heads. Grey: a linear map. Amber: gates that decide."""
    if instruction.opcode in HEADS:
        return BLUE
    return GREY if instruction.opcode in LINEAR else AMBER


def text(x: float, y: float, words: str, kind: str = "") -> str:
    """One line."""
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(words)}</text>'


def box(x: float, y: float, wide: float, high: float, colour: Hue) -> str:
    """A rectangle with a tinted ground."""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" rx="4" fill="{colour.soft}" '
        f'stroke="{colour.light}"/>'
    )


def tape_column(tape: Tape) -> tuple[list[str], float]:
    """The instructions, one below the other, with what they read and write."""
    names = {register.name: name for name, register in tape.inputs.items()}
    pieces = [text(LEFT, 24, "The tape: one round, an instruction a step", "head")]
    y = 40.0
    for number, instruction in enumerate(tape, 1):
        read = [names.get(o.register.name, o.register.name) for o in instruction.operands]
        wrote = instruction.output.name
        shape = "x".join(map(str, instruction.output.shape)) or "number"
        pieces += [
            box(LEFT, y, TAPE, ROW - 5, hue(instruction)),
            text(LEFT + 8, y + 15, f"{number}", "code"),
            text(LEFT + 32, y + 15, f"{wrote} = {instruction.label}({', '.join(read)})", "code"),
            text(LEFT + TAPE - 130, y + 15, shape, "code"),
            text(LEFT + TAPE - 70, y + 15, instruction.origin.phase, "note"),
        ]
        y += ROW
    left = [f"{register.name}: {name}" for name, register in tape.outputs.items()]
    pieces.append(text(LEFT, y + 14, "leaves " + ", ".join(left[:3]) + ",", "note"))
    pieces.append(text(LEFT, y + 31, ", ".join(left[3:]), "note"))
    legend = ((BLUE, "heads: products and functions"), (GREY, "linear maps"), (AMBER, "decisions"))
    x = LEFT
    for colour, words in legend:
        pieces += [box(x, y + 46, 14, 14, colour), text(x + 20, y + 58, words, "note")]
        x += 40 + 6.6 * len(words)
    return pieces, y + 70


def layer_column() -> tuple[list[str], float]:
    """What one call of the layer does."""
    stages = (
        ("the mask shows", "one instruction token, at most three registers", GREEN),
        (
            "feed-forward: routes",
            "gates of this kind open: numbers to ask, numbers to multiply",
            AMBER,
        ),
        ("softmax heads", "over grid tokens: read a number, times a value; or a function", BLUE),
        ("feed-forward: result", "sums, flags that are exactly 0 or 1", AMBER),
        ("the new block", "one register", GREEN),
    )
    pieces = [text(LAYER, 24, "The layer: the same weights at every step", "head")]
    y = 40.0
    for number, (name, words, colour) in enumerate(stages):
        pieces += [
            box(LAYER, y, WIDTH - LAYER - LEFT, 42, colour),
            text(LAYER + 10, y + 17, name, "name"),
            text(LAYER + 10, y + 34, words, "small"),
        ]
        if number + 1 < len(stages):
            x = LAYER + (WIDTH - LAYER - LEFT) / 2
            pieces.append(f'<path d="M{x:g} {y + 43:g}v9m-4 -5l4 5l4 -5"/>')
        y += 54
    return pieces, y


def machine(tape: Tape) -> str:
    """The picture."""
    left, low = tape_column(tape)
    right, deep = layer_column()
    style = (
        "text{font-family:system-ui,-apple-system,'Segoe UI','Noto Sans',Arial,sans-serif;fill:#1f2933;"
        "font-size:12.5px}.head{font-size:15px;font-weight:600}.name{font-weight:600}"
        ".small{font-size:11px;fill:#3e4c59}.note{font-size:11.5px;fill:#52606d}"
        ".code{font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:11.5px}"
        f"path{{fill:none;stroke:{GREY.light}}}"
    )
    title = (
        "A training step as a tape of instructions, and the frozen layer that executes one a call"
    )
    height = max(low, deep) + 6
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img">\n'
        f'<title>{title}</title>\n<style>{style}</style>\n<rect width="{WIDTH}" height="{height:g}" '
        'fill="#ffffff"/>\n' + "\n".join([*left, *right]) + "\n</svg>\n"
    )


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(machine(example_tape()), encoding="utf-8")


if __name__ == "__main__":
    main()
