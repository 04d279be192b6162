"""A damaged config is refused in a sentence, whatever is damaged."""

from __future__ import annotations

import copy
import json
import random

import pytest
from machine_cases import trained

import icgd
from icgd.errors import IcgdError
from icgd.mechanisms.machine.saved.schema import MACHINE_CONFIG
from icgd.transformer.program import files

JUNK = [None, True, -1, 0, 3, 2**40, 10**30, 1.5, float("nan"), "", "relu", [], [1], {}, {"a": 1}]


@pytest.fixture(scope="module")
def config():
    program = trained("tanh", "cross_entropy")[1]
    whole = {"format": files.FORMAT, "icgd_version": "0", **program.config, "slots": {}}
    return json.loads(json.dumps(whole))


def loaded(config, tmp_path):
    """What `from_pretrained` does with a config, its weights aside."""
    files._check_schema(tmp_path / "config.json", config, MACHINE_CONFIG)
    try:
        return files.rebuilt(config)
    except icgd.TooLarge:
        raise
    except (IcgdError, *files.ODD_CONTENT, ArithmeticError, LookupError) as error:
        raise icgd.InvalidFile(f"does not describe a program: {error}") from error


def refusal(config, tmp_path):
    """What is said of a config; nothing if it is accepted."""
    try:
        loaded(config, tmp_path)
    except (icgd.InvalidFile, icgd.TooLarge) as error:
        return str(error)
    return ""


def instruction(config, opcode, tape="step:4"):
    return next(
        i for i in config["problem"]["tapes"][tape]["instructions"] if i["opcode"] == opcode
    )


def places(value, path=()):
    """Every place in a nest of lists and dicts."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from places(inner, (*path, at))


def at(value, path):
    for key in path:
        value = value[key]
    return value


def test_what_was_compiled_is_accepted(config, tmp_path):
    assert loaded(config, tmp_path).tapes.tapes.keys() == config["problem"]["tapes"].keys()


@pytest.mark.parametrize("seed", range(8))
def test_whatever_is_damaged_is_refused_in_a_sentence_or_harmless(seed, config, tmp_path):
    """Thirty-two changes per seed: keys that go, entries that go or come twice, values of other kinds."""
    rng = random.Random(seed)
    every = [path for path in places(config["problem"]) if path] + [
        ("optimizer", *path) for path in places(config["optimizer"]) if path
    ]
    refused = 0
    for _ in range(32):
        damaged = copy.deepcopy(config)
        path = rng.choice(every)
        root = damaged if path[0] == "optimizer" else damaged["problem"]
        parent, key = at(root, path[:-1]), path[-1]
        kind = rng.choice(["junk", "gone", "other"])
        if kind == "gone":
            del parent[key]
        elif kind == "junk":
            parent[key] = rng.choice(JUNK)
        elif isinstance(parent, list):
            parent[key] = copy.deepcopy(rng.choice(parent))
        else:
            parent[key] = copy.deepcopy(rng.choice(list(parent.values())))
        message = refusal(damaged, tmp_path)
        assert len(message) < 700, message
        refused += bool(message)
    assert refused > 16


@pytest.mark.parametrize("opcode", ["relu", "compare", "join", "select", "softmax", "jump"])
def test_an_instruction_that_is_another_does_not_fit(opcode, config, tmp_path):
    damaged = copy.deepcopy(config)
    instruction(damaged, "matmul")["opcode"] = opcode
    with pytest.raises(icgd.InvalidFile, match=r"step:4|opcode"):
        loaded(damaged, tmp_path)


def test_what_is_read_before_it_is_written_is_named(config, tmp_path):
    damaged = copy.deepcopy(config)
    steps = damaged["problem"]["tapes"]["step:4"]["instructions"]
    steps[0], steps[1] = steps[1], steps[0]
    with pytest.raises(icgd.InvalidFile, match=r"step 1, tanh|step 1, function: it reads 'r\d+'"):
        loaded(damaged, tmp_path)


def test_a_route_that_does_not_fit_names_its_move(config, tmp_path):
    damaged = copy.deepcopy(config)
    product = instruction(damaged, "matmul")
    moves = next(route for _, route in product["operands"] if route[1])[1]
    moves[0] = ["permute", [0, 0]]
    with pytest.raises(icgd.InvalidFile, match=r"\['permute', \[0, 0\]\] does not fit the shape"):
        loaded(damaged, tmp_path)


def test_shapes_that_fit_together_but_not_into_memory_are_too_large(config, tmp_path):
    damaged = copy.deepcopy(config)
    for tape in damaged["problem"]["tapes"].values():
        tape["constants"].append([["c99", [0, 5], "real"], []])
        tape["instructions"].append(
            {
                "opcode": "affine",
                "operands": [
                    ["c99", [[0, 5], [["sum", [0], True], ["expand", [2**40, 5]]]]],
                ],
                "output": ["r99", [2**40, 5], "real"],
                "settings": {},
                "origin": ["", 0, "", ""],
            }
        )
    with pytest.raises(icgd.TooLarge, match="largest register"):
        loaded(damaged, tmp_path)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("options", "heads"), "loose", "heads"),
        (("options", "radius"), -1.0, "radius"),
        (("options", "exponents"), [1, 2, 3], "exponents"),
        (("options", "exponents"), [-3, 5], "exponents"),
        (("dtype",), "float16", "dtype"),
        (("optimizer", "groups"), [], "hyper.0.lr"),
        (("problem", "tapes"), {}, "no tape 'call'"),
    ],
)
def test_options_are_checked(path, value, words, config, tmp_path):
    damaged = copy.deepcopy(config)
    at(damaged, path[:-1])[path[-1]] = value
    with pytest.raises(icgd.InvalidFile, match=words):
        loaded(damaged, tmp_path)


def test_values_of_a_head_are_proved_anew(config, tmp_path):
    """A value that was changed makes another promise, not a false one; a missing one is refused."""
    damaged = copy.deepcopy(config)
    damaged["tables"]["log"]["odd"] = damaged["tables"]["log"]["odd"][1:]
    with pytest.raises(icgd.InvalidFile, match="values of log"):
        loaded(damaged, tmp_path)
