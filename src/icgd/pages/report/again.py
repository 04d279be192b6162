"""The command that does a run again, from the configuration in its result."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from icgd.base.construction import constructions


def again(result: Mapping[str, Any]) -> str:
    """The command that was run; for a result that does not hold it, one with every setting written out.

    Empty if the result does not say enough.
    """
    command = result.get("command")
    if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        return shlex.join(command)
    config = result.get("config") or {}
    try:
        words = ["icgd", "run", *_data(config), *_what(result, config), *_how(config)]
    except (KeyError, TypeError, IndexError):
        return ""
    return shlex.join(words)


def _data(config: Mapping[str, Any]) -> list[str]:
    data = str(config["data"])
    name = data.removeprefix("example:")
    words = ["--example", name] if name != data else [data]
    targets = config["targets"] if "targets" in config else [config["target"]]
    for target in targets:
        words += ["--target", str(target)]
    return words if config["standardize"] else [*words, "--no-standardize"]


def _what(result: Mapping[str, Any], config: Mapping[str, Any]) -> list[str]:
    """What was trained, and how long."""
    model, problem, optimizer = result.get("model"), config["problem"], config["optimizer"]
    if model == "linear":
        words = ["--model", "linear", "--optimizer", str(result["optimizer"])]
        lengths = {len(v) for v in ((result.get("curves") or {}).get("distance") or {}).values()}
        # Unless all three made as many loops, each made its own usual number of them.
        if len(lengths) <= 1:
            words += ["--steps", str(config["steps"])]
        # lr is that of the gradient descent beside it, whichever optimizer was asked for.
        used = optimizer if result["optimizer"] == "gd" else config
        return [*words, *_option("lr", used)]
    if model is not None and model != "network":
        words = [
            "--model",
            str(model),
            "--lam",
            repr(problem["lam"]),
            "--steps",
            str(config["steps"]),
        ]
        # Standardised regressions have no intercept of their own.
        usual = not (model in ("ridge", "lasso") and config["standardize"])
        bias = [] if problem["intercept"] or not usual else ["--no-bias"]
        return [*words, *bias, *_option("lr", optimizer)]
    widths = [str(w) for w in problem["widths"][1:-1]]
    words = ["--widths", ",".join(widths) or "none", *_option("activation", problem)]
    words += [*_option("output", problem), *([] if problem["bias"] else ["--no-bias"])]
    known = constructions()[config["construction"]]
    if known.rounds == "epochs":
        words += ["--epochs", str(config["epochs"])]
    else:
        words += ["--method", str(known.method), "--steps", str(config["steps"])]
        words += _option("box", optimizer)
    return [*words, "--seed", str(config["seed"]), *_option("lr", optimizer)]


def _how(config: Mapping[str, Any]) -> list[str]:
    """Compiler options, precision, executor."""
    options, words = config["options"], list[str]()
    known = constructions().get(config["construction"])
    for name in () if known is None else known.switches:
        words += _option(name, options)
    return [*words, *_option("dtype", config), *_option("executor", config)]


def _option(name: str, values: Mapping[str, Any]) -> list[str]:
    value = values.get(name)
    if value is None:
        return []
    return [f"--{name.replace('_', '-')}", value if isinstance(value, str) else repr(value)]
