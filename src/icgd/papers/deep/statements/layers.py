"""Checkers for the layers of [DEEP], Definitions 5 to 9: multiplication, ReLU attention, feed-forward."""

from __future__ import annotations

import torch
from torch import Tensor

from icgd.mechanisms.stacks.backward import StackBuilder
from icgd.mechanisms.stacks.compile_backward import stack_options
from icgd.papers.deep.statements.cases import UNIT, fits, gap, make_case, matrices, packed
from icgd.papers.theorem_table import Row, checks, judge
from icgd.transformer.nn.stack.stack import AttentionSublayer, ProductSublayer, Stack, unwatched
from icgd.transformer.runtime.executors.choose import ExecutorName

EXECUTORS: tuple[ExecutorName, ...] = ("structured", "sparse", "dense")


@checks("DEEP", "Definition 5, 6")
def definition_6() -> Row:
    """Multiplication layers and the order in which layers are composed.

    Statement: [DEEP] Definition 5
    Statement: [DEEP] Definition 6

    Differs from the paper: layers are applied in the order of their numbers, as in Definition 9.
    """
    its = make_case((3, 4, 4, 3))
    program = its.program(n_relu=129)
    stack = program.step
    assert isinstance(stack, Stack)
    tokens = packed(program, its)
    signals, literal = [], 0.0
    for name, layer in stack.each():
        if isinstance(layer, ProductSublayer):
            signals.append(layer)
            literal = max(
                literal, gap([_gamma_form(layer, tokens)], [layer.collapsed(tokens, unwatched)])
            )
        if name == "descend":
            break
        tokens = layer.collapsed(tokens, unwatched)
    erased = tokens.clone()
    for j in (1, 2, 3):
        erased[..., program.layout.slice(f"signal{j}")] = 0
    backwards = erased
    for layer in reversed(signals):
        backwards = layer.collapsed(backwards, unwatched)
    wrong = [backwards[..., program.layout.slice(f"signal{j}")] for j in (1, 2)]
    right = [tokens[..., program.layout.slice(f"signal{j}")] for j in (1, 2)]
    largest = float(tokens.abs().max())
    return judge(
        "Definition 5, 6",
        "EWML(H) = H + sum_m (V_m H) gamma((Q_m H)^T (K_m H)); EWML^L = EWML_1 o .. o EWML_L, (3.20) likewise",
        refuted=all(float(w.abs().max()) == 0 for w in wrong) and gap(wrong, right) > 0.01,
        counterexample="read as compositions, the last layer comes first: s(1) and s(2) are made from an s(3) "
        f"that is still 0, and stay 0 where they should reach {max(float(s.abs().max()) for s in right):.2g}; "
        "Definition 9 has the other order",
        corrected="applied by number; the layer by index arrays against the printed matrices",
        measured=literal,
        bound=UNIT * (tokens.shape[-1] + 4) * max(1.0, largest) ** 3,
        errata=("DEEP D8",),
    )


def _gamma_form(layer: ProductSublayer, tokens: Tensor) -> Tensor:
    """H + sum (V H) gamma((Q H)^T K H) with full matrices; tokens are columns inside."""
    H, out = tokens.mT, tokens.mT
    query, key = layer.get_buffer("query"), layer.get_buffer("key")
    for h in range(len(query)):
        Q, K, V = (H.new_zeros(H.shape[-2], H.shape[-2]) for _ in range(3))
        row = torch.arange(query.shape[1])
        Q[row, query[h]], K[row, key[h]] = 1.0, 1.0
        V[layer.get_buffer("target")[h], layer.get_buffer("source")[h]] = 1.0
        product = (Q @ H).mT @ (K @ H)
        out = out + (V @ H) @ torch.diag_embed(product.diagonal(dim1=-2, dim2=-1))
    return out.mT


@checks("DEEP", "Definition 7")
def definition_7() -> Row:
    """ReLU attention.

    Statement: [DEEP] Definition 7

    Differs from the paper: the vector form; the matrix form has the roles of Q and K exchanged.
    """
    its = make_case((2, 3, 2), n=5)
    program = its.program(n_relu=33)
    stack = program.step
    assert isinstance(stack, Stack)
    name, layer = stack.each()[0]
    assert isinstance(layer, AttentionSublayer)
    tokens = packed(program, its)
    vector, matrix = tokens, tokens
    for family in layer.each():
        Q, K, V = family.matrices(range(family.n_heads), tokens.shape[-1])
        for q, k, v in zip(Q, K, V, strict=True):
            score = torch.relu((tokens @ q.T) @ (tokens @ k.T).mT)
            vector = vector + score @ (tokens @ v.T) / len(tokens)
            matrix = matrix + score.mT @ (tokens @ v.T) / len(tokens)
    where = program.layout.slice("out1")
    exact = torch.tanh(its.X @ its.matrices[0].T)
    off = gap([matrix[..., where]], [exact])
    alike = float((matrix[..., where] - matrix[:1, where]).abs().max())
    eps = fits("tanh", 5.0, 33)[0].certificate.sup_error
    builder = StackBuilder(its.network.spec, stack_options(program.blueprint))
    return judge(
        "Definition 7",
        "Attn(H) = H + 1/n sum_m (V_m H) sigma((Q_m H)^T (K_m H)), token i: sum_s sigma(<Q h_i, K h_s>) V h_s",
        refuted=off > 10 * eps,
        counterexample="column i of the matrix form is sum_s sigma(<Q h_s, K h_i>) V h_s: with the heads of "
        f"Lemma 2 every token gets the mean over all examples (spread {alike:.0e}), p(1) is {off:.2g} off; D.7 "
        "writes this form as well",
        corrected="<Q h_i, K h_s>, the form Lemmas 2 and 3 use, with literal matrices",
        measured=gap([vector[..., where]], [exact]),
        bound=builder.fits[1].value.certificate.sup_error,
        also=name == "forward1",
        errata=("DEEP D14",),
    )


@checks("DEEP", "Definition 8, 9")
def definition_8() -> Row:
    """Feed-forward layers, and transformers made of both kinds.

    Statement: [DEEP] Definition 8
    Statement: [DEEP] Definition 9

    Differs from the paper: no; a lone attention layer is a block whose feed-forward part is zero.
    """
    its = make_case((2, 2, 2), n=4)
    program = its.program(n_relu=17)
    runs = [
        program.run(its.X, its.Y, init=its.init, steps=2, executor=e).weights for e in EXECUTORS
    ]
    apart = max(gap(matrices(runs[0]), matrices(other)) for other in runs[1:])
    builder = StackBuilder(its.network.spec, stack_options(program.blueprint))
    # Heads of a unit over all tokens, each as large as |c| (R + 1), through 2 steps of 8 layers.
    terms = 17 * len(its.X) * builder.fits[1].value.C * (builder.o.radius + 1)
    stack = program.step
    assert isinstance(stack, Stack)
    return judge(
        "Definition 8, 9",
        "MLP(H) = H + W_2 sigma(W_1 H) without biases; TF^L = MLP_L o Attn_L o .. o MLP_1 o Attn_1",
        refuted=stack.n_layers != 8,
        counterexample="none; biases stand in the slot that is 1",
        corrected="literal D x D matrices, index arrays, collapsed sums: one stack, 2 steps",
        measured=apart,
        bound=16 * UNIT * terms,
    )
