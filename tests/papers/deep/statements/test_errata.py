"""docs/errata_deep.md, D1 to D8, and all rows: the printed form is run and fails, the corrected one holds.

The oracle is autograd (tests/support/deep_oracle.py); fits of r and r' are the package's sums of ReLUs.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import torch
from deep_oracle import (
    F64,
    activated,
    aligned,
    apart,
    compiled,
    gradient,
    outputs,
    pairs,
    random_network,
    seeds,
)

from icgd.papers.deep.appendix_h import statements as deep_applications
from icgd.papers.deep.statements import definitions as deep_definitions
from icgd.papers.deep.statements import layers as deep_layers
from icgd.papers.deep.statements import lemmas as deep_lemmas
from icgd.papers.deep.statements import paths as deep_paths
from icgd.papers.deep.statements import theorems as deep_theorems
from icgd.papers.deep.statements.bounds import (
    Setting,
    forward_error,
    forward_radius,
    loss_radius,
    printed_forward_radius,
    printed_loss_radius,
    printed_output_bounds,
    printed_slope_radius,
)
from icgd.papers.deep.statements.cases import fits, make_case, packed
from icgd.papers.deep.statements.norms import n_activations
from icgd.papers.errata import ERRATA
from icgd.transformer.gadgets.fits.relu_sum import fit_relu_sum
from icgd.transformer.nn.stack.stack import ProductSublayer

MODULES = (
    deep_definitions,
    deep_layers,
    deep_lemmas,
    deep_theorems,
    deep_paths,
    deep_applications,
)
CHECKERS = {
    "Problem 1, 2": (deep_definitions.problem_1, "slip"),
    "Definition 1, 10, Remark 1": (deep_definitions.definition_1, "holds"),
    "Definition 2, 3, Lemma 1, 8, 15": (deep_definitions.lemma_1, "holds"),
    "Definition 4": (deep_definitions.definition_4, "holds"),
    "Lemma 7": (deep_definitions.lemma_7, "slip"),
    "Remark 2": (deep_definitions.remark_2, "holds"),
    "Remark 3": (deep_definitions.remark_3, "reading"),
    "Definition 5, 6": (deep_layers.definition_6, "reading"),
    "Definition 7": (deep_layers.definition_7, "slip"),
    "Definition 8, 9": (deep_layers.definition_8, "holds"),
    "Lemma 2, 9": (deep_lemmas.lemma_2, "slip"),
    "Lemma 3, 10": (deep_lemmas.lemma_3, "slip"),
    "Lemma 4, 11": (deep_lemmas.lemma_4, "slip"),
    "Lemma 5, 12": (deep_lemmas.lemma_5, "holds"),
    "Lemma 6, 13": (deep_lemmas.lemma_6, "false"),
    "Theorem 1, 2, 4": (deep_theorems.theorem_1, "reading"),
    "Theorem 1 (D.7)": (deep_theorems.theorem_1_error, "slip"),
    "Theorem 1 (C.1)": (deep_theorems.theorem_1_norms, "reading"),
    "Theorem 5": (deep_theorems.theorem_5, "reading"),
    "Corollary 1.1, 4.1": (deep_paths.corollary_11, "slip"),
    "Lemma 14": (deep_paths.lemma_14, "slip"),
    "Problem 3, Appendix H": (deep_applications.appendix_h, "reading"),
    "Lemma 19": (deep_applications.lemma_19, "holds"),
    "zero initialisation": (deep_applications.zero_initialisation, "holds"),
}


# -- the rows and the page ------------------------------------------------------------------------


@pytest.mark.parametrize("statement", CHECKERS)
def test_rows_pass(statement, row_of):
    checker, verdict = CHECKERS[statement]
    row = row_of(checker)
    assert row.statement == statement
    assert row.printed_verdict == verdict
    assert row.passed, row
    assert math.isfinite(row.bound)
    assert bool(row.errata) == (verdict != "holds")


def test_every_checker_is_listed():
    found = {
        value
        for module in MODULES
        for value in vars(module).values()
        if callable(value) and getattr(value, "__annotations__", {}).get("return") == "Row"
        if value.__module__ == module.__name__
    }
    assert {checker for checker, _ in CHECKERS.values()} == found


def test_the_page_names_tests_that_exist():
    root = Path(__file__).resolve().parents[4]
    page = (root / "docs" / "errata_deep.md").read_text(encoding="utf-8")
    sources = " ".join(p.read_text(encoding="utf-8") for p in (root / "tests").rglob("test_*.py"))
    named = re.findall(r"`(test_\w+)`", page)
    assert len(named) > 20
    assert [name for name in named if f"def {name}(" not in sources] == []
    numbers = [int(n) for n in re.findall(r"^### D(\d+)\.", page, flags=re.MULTILINE)]
    assert sorted(numbers) == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("paper", ["deep", "bridge"])
def test_the_page_has_the_classes_of_the_register(paper):
    """Entries of the page: class and test as registered, or a note, which has no class and no verdict."""
    page = (Path(__file__).resolve().parents[4] / "docs" / f"errata_{paper}.md").read_text("utf-8")
    entries = dict(re.findall(r"^### (\w+)\.(.*?)(?=^##|\Z)", page, flags=re.MULTILINE | re.DOTALL))
    found = {}
    for number, text in entries.items():
        kind = re.search(r"^- \*\*Class:\*\* (\w+)$", text, flags=re.MULTILINE)
        other = re.search(r"^- \*\*Other reading:\*\* (.*?)(?=^- |\Z)", text, flags=re.M | re.S)
        if kind:
            found[number] = kind.group(1), bool(other)
            assert all(f"- **{part}:**" in text for part in ("Fails", "Here", "Test")), number
        if other:
            assert f"`{ERRATA[paper.upper()][number].test}`" in other.group(1), number
    register = ERRATA[paper.upper()]
    assert found == {n: (e.kind, e.kind == "reading") for n, e in register.items()}
    notes = page.split("\n## ")[-1]
    assert notes.startswith("Notes")
    assert set(entries) - set(found) == set(re.findall(r"^### (\w+)\.", notes, flags=re.MULTILINE))


# -- D1, D2: the start and the domain -------------------------------------------------------------


@pytest.mark.parametrize("widths", [(3, 4, 3), (2, 5, 5, 2)])
@pytest.mark.parametrize("act", ["tanh", "gelu", "relu", "sigmoid", "softplus"])
def test_nothing_is_learned_from_zero(widths, act):
    r = {
        "tanh": torch.tanh,
        "relu": torch.relu,
        "sigmoid": torch.sigmoid,
        "gelu": torch.nn.functional.gelu,
        "softplus": torch.nn.functional.softplus,
    }[act]
    V, X, Y = random_network(widths, 0)
    V = [0 * W for W in V]
    for _ in range(50):
        V = [W - 0.5 * g for W, g in zip(V, gradient(V, X, Y, r), strict=True)]
    moved = max(float(W.abs().max()) for W in V)
    if act in ("tanh", "gelu", "relu"):
        assert moved == 0.0
    else:
        assert moved > 1e-2
        assert max(float((W - W[:1]).abs().max()) for W in V[:-1]) < 1e-14
    # Ours: any w_0; from a random one the same 50 steps move every layer.
    V, X, Y = random_network(widths, 0, 0.4)
    start = [W.clone() for W in V]
    for _ in range(50):
        V = [W - 0.5 * g for W, g in zip(V, gradient(V, X, Y, r), strict=True)]
    assert min(float((a - b).abs().max()) for a, b in zip(V, start, strict=True)) > 1e-3


@seeds
@pytest.mark.parametrize("size", [10.0, 1e4])
def test_the_output_layer_is_not_bounded(seed, size):
    V, X, _ = random_network((3, 4, 4, 3), seed)
    B_v = max(float(W.norm(dim=1).max()) for W in V[:-1])
    told = printed_forward_radius(3, B_v, float(X.norm(dim=1).max()), math.tanh)
    p = outputs([*V[:-1], size * V[-1]], X, torch.tanh)
    assert float((p[-2] @ (size * V[-1]).T).abs().max()) > told


# -- D3: ReLU networks ----------------------------------------------------------------------------


@seeds
def test_relu_networks_are_not_covered_and_work(seed):
    # r' jumps: no finite Lipschitz constant, at any scale.
    for h in (1e-3, 1e-9):
        assert abs(float(torch.tensor(h) > 0) - float(torch.tensor(-h) > 0)) / (2 * h) >= 0.4 / h
    V, X, Y = random_network((3, 4, 3), seed, 0.4)
    run = compiled(activated((3, 4, 3), "relu")).run(X, Y, init=pairs(V), steps=1)
    exact = [W - 0.5 * g for W, g in zip(V, gradient(V, X, Y, torch.relu), strict=True)]
    assert run.near_kink.count == 0
    assert apart([W for W, _ in run.weights], exact) < 1e-15


# -- D4 to D6: radii ------------------------------------------------------------------------------


@pytest.mark.parametrize(("K", "b"), [(4, 0.75), (8, 0.75), (16, 0.5)])
def test_forward_radius_lacks_the_width(K, b):
    B_v, B_x = b * math.sqrt(K), 1.0
    V, x = aligned(3, K, B_v), torch.full((1, K), B_x / math.sqrt(K), dtype=F64)
    exact = outputs(V, x, torch.tanh)
    reached = [float((p @ W.T).abs().max()) for p, W in zip(exact, V, strict=False)]
    told = printed_forward_radius(3, B_v, B_x, math.tanh)
    assert max(reached) > 1.5 * told
    s = Setting(3, K, K, B_v, B_x, 1.0, 0.77, 2.0, 1.0, 1.0, 2.0)
    for radius, holds in ((told, False), (forward_radius(3, K, B_v, B_x, math.tanh, 0.05), True)):
        fit = fits("tanh", radius, 129)[0]
        made, eps = outputs(V, x, fit), fit.certificate.sup_error
        kept = [float((made[j] - exact[j]).norm()) <= forward_error(s, j) * eps for j in (1, 2, 3)]
        assert all(kept) == holds
    assert max(reached) <= forward_radius(3, K, B_v, B_x, math.tanh)


@seeds
@pytest.mark.parametrize("n_layers", [2, 4])
def test_forward_radius_with_the_width(seed, n_layers):
    b, K = 0.75, 4
    V, X, _ = random_network((3, *[K] * (n_layers - 1), 3), seed)
    V = [W.clamp(-b, b) for W in V]
    B_v, B_x = 2 * b, float(X.norm(dim=1).max())
    radius = forward_radius(n_layers, K, B_v, B_x, math.tanh, 0.05)
    fit = fits("tanh", radius, 65)[0]
    made, exact = outputs(V, X, fit), outputs(V, X, torch.tanh)
    s = Setting(n_layers, K, 3, B_v, B_x, 1.0, 0.77, 2.0, 1.0, 1.0, 2.0)
    for j in range(1, n_layers + 1):
        assert float((made[j - 1] @ V[j - 1].T).abs().max()) <= radius
        off = float((made[j] - exact[j]).norm(dim=1).max())
        assert off <= forward_error(s, j) * fit.certificate.sup_error


@pytest.mark.parametrize(("K", "B_v"), [(1, 2.0), (4, 1.5), (9, 1.0)])
def test_slope_radius_follows_the_slopes(K, B_v):
    softplus, B_x = torch.nn.functional.softplus, 2.0
    V, x = aligned(2, K, B_v), torch.full((1, K), B_x / math.sqrt(K), dtype=F64)
    p = outputs(V, x, softplus)
    reached = max(float((p[j] @ V[j].T).abs().max()) for j in (0, 1))
    told = printed_slope_radius(2, B_v, B_x, lambda z: 1 / (1 + math.exp(-z)))
    assert reached > 1.5 * told
    assert reached <= forward_radius(2, K, B_v, B_x, lambda z: z + math.log1p(math.exp(-z)))
    slope = fits("softplus", told, 65)[1]
    z = torch.tensor(reached, dtype=F64)
    assert float((slope(z) - torch.sigmoid(z)).abs()) > 100 * slope.certificate.sup_error


@pytest.mark.parametrize(("N", "K", "d"), [(2, 3, 5), (3, 4, 3), (4, 2, 1)])
def test_slopes_have_one_layer_more(N, K, d):
    layout = compiled(activated((d, *[K] * (N - 1), d)), n_relu=9).layout
    entries = sum(layout[f"slope{j}"].size for j in range(1, N + 1))
    assert entries == n_activations(N, K, d) == (N - 2) * K + d + K


@pytest.mark.parametrize("K", [1, 4])
@pytest.mark.parametrize("B_v", [0.5, 0.8])
def test_loss_radius_bounds_the_wrong_thing(K, B_v):
    softplus, B_x = torch.nn.functional.softplus, 1.0 / B_v
    V, x = aligned(2, K, B_v), torch.full((1, K), B_x / math.sqrt(K), dtype=F64)
    p = float(outputs(V, x, softplus)[-1].max())

    def size(z):
        return z + math.log1p(math.exp(-z))

    for B_r in (
        max(printed_output_bounds(2, B_v, B_x, size)),
        max(printed_output_bounds(2, B_v, B_x, size)[1:]),
    ):
        assert p > printed_loss_radius(B_v, B_r, 0.5)
    assert p <= loss_radius(size(B_v * math.sqrt(K) * size(B_v * B_x)), 0.5)


@pytest.mark.parametrize("d", [1, 2, 6])
def test_the_mask_needs_the_l1_norm(d):
    R = 2.0
    p = torch.full((d,), R, dtype=F64)
    unit = torch.full((d + 1,), 1 / math.sqrt(d + 1), dtype=F64)  # |a|_2 = 1, on [p; 1]
    assert float(unit[:-1] @ p + unit[-1]) - R > (0.1 if d == 1 else 0.5)
    # |a|_1 = 1: shut for every sign and share.
    g = torch.Generator().manual_seed(d)
    a = torch.randn(1000, d + 1, generator=g, dtype=F64)
    a = a / a.abs().sum(dim=1, keepdim=True)
    assert float((a[:, :-1].abs() @ p + a[:, -1].abs()).max()) <= R + 1e-12


# -- D7, D8: products, and the order of layers ----------------------------------------------------


@seeds
def test_products_without_multiplication_layers(seed):
    V, X, Y = random_network((3, 4, 3), seed, 0.4)
    exact = {}
    for act, r in (("relu", torch.relu), ("tanh", torch.tanh)):
        program = compiled(
            activated((3, 4, 3), act), products="attention", n_relu=257, signal_radius=16.0
        )
        assert not any(isinstance(layer, ProductSublayer) for _, layer in program.step.each())
        assert program.step.n_layers == 3 * 2 + 4
        run = program.run(X, Y, init=pairs(V), steps=1)
        plain = [W - 0.5 * g for W, g in zip(V, gradient(V, X, Y, r), strict=True)]
        exact[act] = apart([W for W, _ in run.weights], plain)
    assert exact["relu"] < 1e-15
    assert exact["tanh"] < 1e-3


@pytest.mark.parametrize("n_relu", [9, 33, 129])
def test_plain_layers_multiply_with_an_error(n_relu):
    """Read as exact products of arbitrary numbers: s pieces are 1/(8 s^2) off t^2 on [0, 1], and s >= 1."""
    fit = fit_relu_sum(torch.square, 1.0, n_relu, second=2.0, third=0.0)
    t = torch.linspace(0, 1, 20_001, dtype=F64)
    error = float((fit(t) - t.square()).abs().max())
    breaks = int(((fit(t).diff().diff()).abs() > 1e-12).sum())
    assert error >= 1 / (8 * (breaks + 1) ** 2) > 0
    assert error <= fit.certificate.sup_error
    # Attention of a token to all tokens multiplies across them: x_i times the mean of y, whatever the head.
    x, y = torch.rand(2, n_relu, generator=torch.Generator().manual_seed(n_relu), dtype=F64)
    scores = torch.relu(torch.outer(x, y)) - torch.relu(-torch.outer(x, y))
    assert apart([scores.mean(dim=1)], [x * y.mean()]) < 1e-15
    assert apart([scores.mean(dim=1)], [x * y]) > 0.1


@pytest.mark.parametrize("widths", [(3, 4, 3), (5, 4, 4, 2), (2, 3, 3, 3, 2)])
def test_order_of_composition(widths):
    its = make_case(widths)
    assert deep_theorems.in_printed_order(its, 3) == 0.0
    program = its.program(n_relu=65)
    run = program.run(its.X, its.Y, init=its.init, steps=3)
    assert apart([W for W, _ in run.weights], its.matrices) > 1e-2
    # (3.20) stops at layer 2N+1: one signal short, and the first layer gets no gradient.
    tokens = packed(program, its)
    for name, layer in program.step.each():
        if name != "signal1":
            tokens = layer.collapsed(tokens, lambda *_: None)
    first = tokens[0, program.layout.slice("weight1")].reshape(its.matrices[0].shape)
    assert torch.equal(first, its.matrices[0])
