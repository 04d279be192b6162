"""icgd.compile: options as an object or by name mean the same; what does not fit is refused in a sentence."""

from __future__ import annotations

import pytest
import torch

import icgd

NET, LINEAR = icgd.Network((2, 3, 1)), icgd.LinearRegression(2, 5)
SAME = {
    "cot": (NET, icgd.SGD(0.1), icgd.CotOptions, {"n_grid": 40, "radius": 64.0}),
    "stack": (NET, icgd.GD(0.1), icgd.BackwardStackOptions, {"n_relu": 16, "ramp": 2.0**-12}),
    "forward": (NET, icgd.GD(0.1), icgd.ForwardModeOptions, {"attention": "relu"}),
    "linear": (
        icgd.GLM(2, "logistic"),
        icgd.GD(0.1),
        icgd.LinearModelOptions,
        {"native": False, "n_grid": 64},
    ),
    "loop": (LINEAR, icgd.GD(0.1), icgd.ProductOptions, {"mode": "four"}),
    "newton": (LINEAR, icgd.Newton(1e-3), icgd.ProductOptions, {"n_grid": 40}),
}


@pytest.mark.parametrize("name", SAME)
def test_an_object_and_keywords_compile_the_same_program(name):
    problem, optimizer, kind, options = SAME[name]
    method = {"method": "forward_mode"} if name == "forward" else {}
    by_name = icgd.compile(problem, optimizer, **options, **method)
    by_object = icgd.compile(problem, optimizer, kind(**options))
    assert by_name.config == by_object.config
    for (key, a), (_, b) in zip(
        by_name.named_parameters(), by_object.named_parameters(), strict=True
    ):
        assert torch.equal(a, b), key
    for key, value in options.items():
        assert by_object.options[key] == value


def test_options_pick_the_construction():
    assert (
        icgd.compile(LINEAR, icgd.GD(0.02), icgd.DecoderOptions()).construction.name
        == "looped_decoder"
    )
    chain = icgd.compile(LINEAR, icgd.GD(0.1), icgd.LinearAttentionOptions())
    assert chain.construction.name == "linear_attention_cot"
    assert icgd.compile(LINEAR, icgd.GD(0.1), causal=False).construction.name == "looped_regression"


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: icgd.compile(NET, icgd.SGD(0.1), icgd.ProductOptions()),
            "`options` must be icgd.CotOptions or",
        ),
        (
            lambda: icgd.compile(NET, icgd.SGD(0.1), icgd.CotOptions(), n_grid=40),
            "options were given as an object",
        ),
        (lambda: icgd.compile(NET, icgd.SGD(0.1), batch_size=8), "icgd.compile has no such option"),
        (
            lambda: icgd.compile(NET, icgd.SGD(0.1), n_relu=8),
            "`n_relu` must be left out for a network with",
        ),
        (
            lambda: icgd.compile(LINEAR, icgd.GD(0.1), method="cot"),
            "`method` must be left out for LinearRegression",
        ),
        (
            lambda: icgd.compile(NET, icgd.GD(0.1), method="magic"),
            "be one of cot, stack, forward_mode",
        ),
        (lambda: icgd.compile(NET, icgd.GD(0.1), radius="8"), "`radius` must be a number"),
        (lambda: icgd.compile(object(), icgd.GD(0.1)), "`problem` must be an icgd.Network"),
        (
            lambda: icgd.compile(NET, icgd.SGD(0.1), dtype=torch.float16),
            "be torch.float64 or torch.float32",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(call, sentence):
    with pytest.raises(icgd.InvalidParameter) as refused:
        call()
    assert sentence in str(refused.value)


def test_problem_and_optimizer_are_the_objects_that_were_given():
    program = icgd.compile(icgd.Lasso(3, lam=0.1), icgd.GD(0.5))
    assert isinstance(program.problem, icgd.Lasso)
    assert program.optimizer == icgd.GD(0.5)
    auto = icgd.compile(icgd.Ridge(2, lam=0.1, x_radius=2.0), icgd.GD())
    assert auto.optimizer.lr == 1 / 4.1


OLD = {
    "temperature": (LINEAR, icgd.GD(0.1), {"temperature": "spectral"}),
    "temperature of a stack": (NET, icgd.GD(0.1), {"temperature": "spectral"}),
    "temperature of Newton": (LINEAR, icgd.Newton(1e-3), {"temperature": "spectral"}),
    "causal": (NET, icgd.SGD(0.1), {"causal": False}),
    "causal of a stack": (NET, icgd.GD(0.1), {"causal": False, "method": "forward_mode"}),
    "causal of a linear model": (icgd.Ridge(2, lam=0.1), icgd.GD(0.1), {"causal": False}),
    "causal of a chain": (icgd.MLPChain(2, 2, 4), icgd.GD(0.1), {"causal": False}),
    "None": (NET, icgd.SGD(0.1), {"n_relu": None, "mode": None, "causal": None}),
}


@pytest.mark.parametrize("name", OLD)
def test_keywords_of_the_one_signature_before_still_say_nothing_with_its_defaults(name):
    problem, optimizer, keywords = OLD[name]
    method = {"method": keywords["method"]} if "method" in keywords else {}
    plain = icgd.compile(problem, optimizer, **method)
    assert icgd.compile(problem, optimizer, **keywords).config == plain.config


@pytest.mark.parametrize("value", [None, False, 1, "spectral"])
def test_an_unknown_keyword_is_refused_whatever_its_value(value):
    with pytest.raises((TypeError, icgd.InvalidParameter), match="foo"):
        icgd.compile(NET, icgd.SGD(0.1), foo=value)


@pytest.mark.parametrize("keywords", [{"temperature": "hard"}, {"causal": True}])
def test_keywords_that_say_something_are_refused_where_they_would_be_ignored(keywords):
    problem = icgd.MLPChain(2, 2, 4) if "causal" in keywords else LINEAR
    with pytest.raises(icgd.InvalidParameter, match="must be left out"):
        icgd.compile(problem, icgd.GD(0.1), **keywords)
