"""Help and refusals come before anything heavy is imported: nobody waits seconds for a typing error."""

import subprocess
import sys

import pytest

from icgd.cli.run.settings import PAPERS
from icgd.lab.scales import SCALES
from icgd.papers.names import NAMES
from icgd.papers.registry import EXPERIMENTS
from icgd.papers.theorem_table import PAPERS as THEOREMS

HEAVY = ("torch", "sklearn", "pandas", "matplotlib", "scipy", "huggingface_hub", "safetensors")
PROBE = f"""
import sys
from icgd.cli import app
code = 0
try:
    app(sys.argv[1:], prog_name="icgd", standalone_mode=True)
except SystemExit as end:
    code = end.code
loaded = [name for name in {HEAVY!r} if name in sys.modules]
print("\\nloaded:", *loaded)
sys.exit(code)
"""


def start(*words):
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *words],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "", "COLUMNS": "80", "PYTHONPATH": ":".join(p for p in sys.path if p)},
    )
    said, _, loaded = done.stdout.rpartition("loaded:")
    return done.returncode, said, done.stderr, loaded.split()


COMMANDS = [
    "run",
    "verify",
    "view",
    "report",
    "cost",
    "train",
    "eval",
    "sweep",
    "reproduce",
    "bench",
]
BENCHES = ["cot", "linear-models", "train"]


@pytest.mark.parametrize(
    "words", [[], *([c] for c in COMMANDS), *(["bench", b] for b in BENCHES)], ids=" ".join
)
def test_help_loads_nothing_heavy_and_cuts_nothing(words):
    code, said, _, loaded = start(*words, "--help")
    assert code == 0
    assert loaded == []
    if words in ([], ["bench"]):
        _, _, summaries = said.partition("Commands:")
        assert summaries.count(".\n") >= len(BENCHES)  # every summary ends, and none is cut
        assert "..." not in summaries
    assert all(len(line) <= 80 for line in said.splitlines())


REFUSED = {
    "run": "`DATA` must be given",
    "run --example nothing": "`--example` must be one of diabetes, breast_cancer",
    "run nowhere.csv --target y": "No file nowhere.csv",
    "run --example diabetes --model nothing": "`--model` must be one of",
    "run --example diabetes --epochs 0": "`--epochs` must be an integer >= 1",
    "run --example diabetes --widths 0": "`--widths` must be integers",
    "run --example diabetes --nothing": "No such option",
    "verify": "`--paper` must be given",
    "verify --paper FOO": "`--paper` must be one of COT, DEEP, BRIDGE, ALGO, LSA, or all",
    "view nowhere": "There is no run nowhere",
    "report nowhere": "No run nowhere",
    "report": "Missing argument",
    "train": "`CONFIG` must be given",
    "train nothing": "There is no preset 'nothing'",
    "train nowhere.yaml": "There is no configuration nowhere.yaml",
    "train noisy_linear_small --set nonsense": "`--set` must have the form a.b=c",
    "eval nowhere": "There is no checkpoint nowhere",
    "eval nowhere --prompts 0": "`--prompts` must be an integer >= 1",
    "sweep nowhere.yaml": "There is no sweep file nowhere.yaml",
    "sweep nowhere.yaml --executor nothing": "`--executor` must be one of",
    "reproduce": "`NAME` must be one of cot-d",
    "reproduce nothing": "`NAME` must be one of cot-d",
    "reproduce --list nothing": "`NAME` must be one of cot-d",
    "reproduce cot-d --scale nothing": "`--scale` must be one of smoke",
    "reproduce cot-d --executor nothing": "`--executor` must be one of",
    "reproduce cot-d --workers 0": "`--workers` must be an integer >= 1",
    "nothing": "No such command",
}


@pytest.mark.parametrize("words", REFUSED)
def test_a_refusal_loads_nothing_heavy(words):
    code, _, said, loaded = start(*words.split())
    assert code == 2
    assert REFUSED[words] in said
    assert loaded == []


@pytest.mark.parametrize("words", ["run", "verify --program nowhere"])
def test_a_missing_target_is_refused_by_the_header_alone(words, tmp_path):
    (tmp_path / "t.csv").write_text('a, "b, c"\n1,2\n')
    code, _, said, loaded = start(*words.split(), str(tmp_path / "t.csv"))
    assert code == 2
    assert "`--target` must name a column of" in said
    assert "Its columns are: a, b, c." in said
    assert loaded == []


@pytest.mark.parametrize("words", ["run {} --target nope", "verify {} --program p --target a,nope"])
def test_a_target_the_header_does_not_name_is_refused_by_the_header_alone(words, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("a,b\n1,2\n")
    (tmp_path / "p").mkdir()
    words = words.replace(" p ", f" {tmp_path / 'p'} ")
    code, _, said, loaded = start(*words.format(table).split())
    assert code == 2
    assert f"`--target` must be a column of {table}. Got 'nope'. Its columns are: a, b." in said
    assert loaded == []


def test_names_are_those_of_the_registry():
    assert set(PAPERS) == set(THEOREMS)
    assert tuple(EXPERIMENTS) == NAMES
    assert all(tuple(e.sizes) == SCALES for e in EXPERIMENTS.values())
