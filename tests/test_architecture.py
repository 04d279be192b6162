"""The shape of the package itself: public names, import cost, file sizes, independence of the oracle."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import icgd
from icgd.base.construction import methods
from icgd.mechanisms.catalogue import OWN

METHOD_NAMES = set(methods())
ALLOWED = {"pages/report/drawing/cost_figures.py"}
ROOT = Path(icgd.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
ASKED_FOR = {"__init__.py", "__main__.py", "__pycache__", "py.typed", "conftest.py"}
"""Files that Python or pytest asks for."""


def source_name(path):
    return str(path.relative_to(ROOT))


def module_of(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


# -- the public interface -------------------------------------------------------------------------


def test_every_public_name_is_there_and_listed():
    assert len(set(icgd.__all__)) == len(icgd.__all__)
    for name in icgd.__all__:
        assert getattr(icgd, name) is not None
    assert dir(icgd) == sorted(icgd.__all__)


def test_the_names_for_type_checkers_are_the_names_at_run_time():
    """The block under TYPE_CHECKING, read off the source, lists exactly what __all__ lists."""
    tree = ast.parse(Path(icgd.__file__).read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    typed = {alias.asname: node.module for node in block.body for alias in node.names}
    assert set(typed) | {"__version__"} == set(icgd.__all__)
    for name, module in typed.items():
        assert getattr(importlib.import_module(module), name) is getattr(icgd, name)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'train'"):
        icgd.train


def test_importing_the_package_imports_nothing_heavy():
    heavy = ("torch", "numpy", "matplotlib", "sklearn", "pandas", "plotly", "rich")
    loaded = python(f"import sys, icgd; print([m for m in {heavy!r} if m in sys.modules])")
    assert loaded == "[]"


def test_loading_a_program_needs_no_other_import(tmp_path):
    """A fresh process that only loads must know every construction."""
    icgd.compile(icgd.Network((1, 1)), icgd.SGD(lr=0.1)).save_pretrained(tmp_path)
    code = f"import icgd; print(icgd.Program.from_pretrained({str(tmp_path)!r}).radius)"
    assert python(code) == "1024.0"


def test_the_package_is_typed_and_versioned():
    assert icgd.__version__.count(".") == 2


# -- the tests ------------------------------------------------------------------------------------

TESTS = Path(__file__).parent
BATTERIES = {
    "base/atomic/test_every_writer.py",
    "cli/test_errors_cli.py",
    "cli/test_light_start.py",
    "cli/test_text_cli.py",
    "cli/run/test_stack.py",
    "estimators/test_against_sklearn.py",
    "estimators/test_behaviour.py",
    "estimators/test_error_bound.py",
    "estimators/test_sklearn_checks.py",
    "lab/training/test_trainer_options.py",
    "mechanisms/test_every_construction.py",
    "mechanisms/test_foreign_constructions.py",
    "mechanisms/stacks/test_backward_input.py",
    "pages/viewer/test_browser.py",
    "pages/viewer/test_node.py",
    "papers/test_claims.py",
    "papers/test_every_experiment.py",
    "papers/test_every_statement.py",
    "papers/test_measured.py",
    "papers/algo/experiments/test_shared_models.py",
    "papers/deep/appendix_h/test_score_and_depth_claims.py",
    "transformer/gadgets/test_every_gadget.py",
    "transformer/program/test_finite_numbers.py",
    "transformer/program/test_threads.py",
    "transformer/runtime/executors/test_every_executor.py",
    "verification/test_every_mutant.py",
    "verification/test_mutation.py",
    "verification/test_machine_mutants.py",
    "verification/test_stack_mutation.py",
}
"""Tests of a law that many modules keep together, or of a whole command."""


def test_tests_stand_where_the_modules_do():
    """tests/a/b/test_c.py is of icgd.a.b.c, tests/a/b/test_b.py of icgd.a.b; errata have a page each."""
    mirrored = {path.name for path in ROOT.iterdir() if path.is_dir()} & {
        path.name for path in TESTS.iterdir()
    }
    assert len(mirrored) > 9
    alone = set()
    for path in (file for name in mirrored for file in (TESTS / name).rglob("test_*.py")):
        where, name = path.parent.relative_to(TESTS), path.stem.removeprefix("test_")
        module = (ROOT / where / f"{name}.py").is_file()
        package = where.name == name and (ROOT / where / "__init__.py").is_file()
        errata = where.parts[0] == "papers" and name.startswith("errata")
        if not (module or package or errata):
            alone.add(path.relative_to(TESTS).as_posix())
    assert alone == BATTERIES


def test_folders_of_tests_can_be_taken_in_at_a_glance():
    """As those of the package; their root also holds what has no package: pages, faults, shared cases."""
    folders = {path.parent for path in TESTS.rglob("*.py")} - {TESTS}
    rooms = {
        folder.relative_to(TESTS).as_posix(): len({e.name for e in folder.iterdir()} - ASKED_FOR)
        for folder in folders
    }
    assert not {name: count for name, count in rooms.items() if count > 13}


# -- the source -----------------------------------------------------------------------------------


def test_files_are_short():
    lengths = {source_name(path): len(path.read_text().splitlines()) for path in FILES}
    assert not {name: length for name, length in lengths.items() if length > 400}


def test_every_module_imports_and_says_what_it_is():
    modules = [module_of(path) for path in FILES if path.name != "__main__.py"]
    assert not [name for name in modules if not importlib.import_module(name).__doc__]


def test_folders_can_be_taken_in_at_a_glance():
    """At most 13 rooms each, what Python itself asks for aside; the viewer's page is one application."""
    folders = {path.parent for path in FILES} - {ROOT / "pages" / "viewer" / "app"}
    rooms = {source_name(f): len({e.name for e in f.iterdir()} - ASKED_FOR) for f in folders}
    assert not {name: count for name, count in rooms.items() if count > 13}


DESCRIPTIONS = ("construction.py", "constructions.py")
LOOKED_UP = {"get", "pop", "setdefault", "startswith", "endswith", "removeprefix", "index", "count"}
"""Methods whose arguments are compared with something."""


def texts(node, known=()):
    """The texts in an expression, names of texts in the same file included."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value
        elif isinstance(inner, ast.Name) and inner.id in known:
            yield from known[inner.id]


def compared_with(source, names, objects=frozenset()):
    """(line, name) for every name that code compares something with, or looks something up by.

    names    words that no text in a comparison, a match, a key or a lookup may hold
    objects  names of variables that nothing may be compared with
    """
    tree = ast.parse(source)
    known = {
        target.id: set(texts(node.value))
        for node in ast.walk(tree)
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None
        for target in getattr(node, "targets", [getattr(node, "target", None)])
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        held = []
        if isinstance(node, ast.Compare):
            held = [node.left, *node.comparators]
            for inner in (inner for part in held for inner in ast.walk(part)):
                name = getattr(inner, "id", getattr(inner, "attr", None))
                if name in objects:
                    yield node.lineno, name
        elif isinstance(node, ast.Dict):
            held = [key for key in node.keys if key is not None]
        elif isinstance(node, ast.Subscript) and getattr(node.value, "id", "") != "Annotated":
            held = [node.slice]  # annotations hold help texts
        elif isinstance(node, ast.MatchValue):
            held = [node.value]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", None) in LOOKED_UP:
            held = node.args
        for text in (text for part in held for text in texts(part, known)):
            for word in names & set(re.findall(r"\w+", text)):
                yield getattr(node, "lineno", 0), word


PLANTED = {
    "equal": "if program.name == 'relu_stack': pass",
    "unequal, turned round": "x = 'relu_stack' != name",
    "one of several": "if name in ('other', 'relu_stack'): pass",
    "one of a set": "ok = name not in {'relu_stack'}",
    "part of a text": "if wanted == '--method relu_stack': pass",
    "matched": "match name:\n    case 'relu_stack' | 'other': pass",
    "a key": "sizes = {'relu_stack': 3}[name]",
    "a subscript": "f = known['relu_stack']",
    "looked up": "f = known.get('relu_stack')",
    "a beginning": "if name.startswith('relu_stack'): pass",
    "by another name": "KIND = 'relu_stack'\ndef f(x):\n    return x == KIND",
    "by the name of several": "KINDS: tuple = ('a', 'relu_stack')\nok = x in KINDS",
    "the object itself": "if blueprint.construction is BACKWARD_STACK: pass",
    "the object in its module": "if c is not constructions.BACKWARD_STACK: pass",
}
INNOCENT = (
    "'relu_stack'",
    "f(method='relu_stack')",
    "x = 'relu_stack' if y == 3 else 'other'",
    "blueprint = Blueprint(BACKWARD_STACK, x == 1)",
)


@pytest.mark.parametrize("case", PLANTED)
def test_a_comparison_with_a_name_would_be_seen(case):
    assert list(compared_with(PLANTED[case], {"relu_stack"}, {"BACKWARD_STACK"}))


@pytest.mark.parametrize("source", INNOCENT)
def test_other_uses_of_a_name_are_left_alone(source):
    assert not list(compared_with(source, {"relu_stack"}, {"BACKWARD_STACK"}))


def test_no_construction_is_known_by_name_outside_its_description():
    """No text is a construction's name, and nothing is compared with one, but in its description.

    The mechanism of a construction may ask whether a program is its own.
    """
    names = {own.name for own in OWN} - METHOD_NAMES
    objects = {
        variable
        for path in FILES
        if path.name in DESCRIPTIONS and path.parent.name != "base"
        for variable, value in vars(importlib.import_module(module_of(path))).items()
        if value in OWN
    }
    assert len(objects) == len(OWN)
    described = {f"{own.build.rpartition('.')[0].replace('.', '/')}/" for own in OWN}
    guilty = []
    for path in FILES:
        at_home = any(part in f"icgd/{source_name(path)}" for part in described)
        if path.name in DESCRIPTIONS and path.parent.name != "base":
            assert at_home
            continue
        source = path.read_text()
        seen = list(compared_with(source, names, frozenset() if at_home else objects))
        seen += [
            (node.lineno, node.value)
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Constant) and node.value in names
        ]
        guilty += [f"{source_name(path)}:{line} {name}" for line, name in seen]
    assert not guilty


def test_no_method_is_compared_with_outside_its_description():
    """Papers aside, which speak of their own mechanism, and the colours of a figure."""
    guilty = []
    for path in FILES:
        papers = path.is_relative_to(ROOT / "papers")
        if papers or path.name in DESCRIPTIONS:
            continue
        seen = compared_with(path.read_text(), METHOD_NAMES)
        guilty += [f"{source_name(path)}:{line} {name}" for line, name in seen]
    assert {line.partition(":")[0] for line in guilty} <= ALLOWED, guilty


def test_locals_are_named_for_what_they_hold():
    """Fields of records, and one argument of a language model, may be `asked` or `found`: they are that."""
    vague = {"told", "made", "found", "asked", "held", "said"}
    guilty = []
    for path in FILES:
        tree = ast.parse(path.read_text())
        fields = {
            id(node.target)
            for record in ast.walk(tree)
            if isinstance(record, ast.ClassDef)
            for node in record.body
            if isinstance(node, ast.AnnAssign)
        }
        for node in ast.walk(tree):
            name = node.id if isinstance(node, ast.Name) else getattr(node, "arg", None)
            stored = isinstance(node, ast.arg) or (
                isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            )
            if stored and name in vague and id(node) not in fields:
                guilty.append(f"{source_name(path)}:{node.lineno} {name}")
    assert [line.partition(":")[0] for line in guilty] == ["lab/models/language.py"]


def test_formatting_is_left_to_the_formatter():
    assert sum(path.read_text().count("fmt: " + "skip") for path in FILES) <= 5


def test_the_judge_is_not_imported_by_what_it_judges():
    judged = [
        path for path in FILES if path.relative_to(ROOT).parts[0] in ("mechanisms", "transformer")
    ]
    assert len(judged) > 80
    assert not [source_name(path) for path in judged if "icgd.oracle" in path.read_text()]


def test_nothing_names_a_path_of_one_machine():
    for path in FILES:
        text = path.read_text()
        assert not any(mark in text for mark in ("/home/", "/root/", "/work/", "/Users/")), (
            path.name
        )


def test_numbers_are_never_papered_over():
    """A NaN is an error to report, not a zero to continue with."""
    assert not [path.name for path in FILES if "nan_to_num" in path.read_text()]


def test_no_global_default_dtype_is_set():
    assert not [path.name for path in FILES if "set_default_dtype" in path.read_text()]
