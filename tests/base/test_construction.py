"""Descriptions of constructions: whole, light to read, and the only place where names are known."""

from __future__ import annotations

import subprocess
import sys

import pytest

import icgd
from icgd.base.construction import by_method, construction, constructions, methods
from icgd.mechanisms.catalogue import OWN

PARTS = ("options", "choose", "build", "schema", "size", "exact", "verifier", "walk", "cost")


@pytest.mark.parametrize("own", OWN, ids=lambda own: own.name)
def test_every_part_that_is_named_is_there(own):
    for part in PARTS:
        assert (getattr(own, part) is None) == (own.load(part) is None)
    assert all(isinstance(kind, type) for kind in (*own.types("problem"), *own.types("optimizer")))
    for text in (own.title, own.summary, own.statement, own.noun):
        assert text
    if own.method is not None:
        assert own.label
        assert own.lead.endswith(".")
        assert set(own.switches) <= {field for field in vars(own.load("options")()) if field}


def test_names_and_methods_are_unique_and_known():
    assert len({own.name for own in OWN}) == len(OWN)
    assert methods() == ("cot", "stack", "forward_mode")
    assert [by_method(name).method for name in methods()] == list(methods())
    assert by_method(None) is by_method("cot")
    assert [c for c in constructions().values() if c in OWN] == list(OWN)
    with pytest.raises(icgd.InvalidParameter, match=r"be registered: .*Import the module"):
        construction("magic")


def test_descriptions_are_read_without_torch():
    code = (
        "import sys; from icgd.base.construction import constructions; constructions(); "
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_copied_program_is_still_what_it_was():
    import copy

    program = icgd.compile(icgd.LinearRegression(2, 4), icgd.GD(0.1))
    assert copy.deepcopy(program).construction is program.construction
