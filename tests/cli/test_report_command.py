"""`icgd report`: real runs in, one page and figures out; bad input is one line and no file."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import typer
from tests.pages.report.sample_results import linear, network, statistics
from tests.pages.viewer.webdriver import Browser, find_browser
from typer.testing import CliRunner

from icgd.cli import app
from icgd.cli.guard import OneLineGroup
from icgd.cli.report_command import FORMATS, WIDTHS, report
from icgd.cli.run.network import FORMAT
from icgd.pages.report import results
from icgd.pages.report.drawing import draw


@pytest.fixture(scope="module")
def command():
    """The command by itself, whether or not the program lists it."""
    alone = typer.Typer(cls=OneLineGroup, pretty_exceptions_enable=False, rich_markup_mode=None)
    alone.command()(report)
    alone.callback()(lambda: None)

    def call(*arguments: object):
        result = CliRunner().invoke(alone, ["report", *map(str, arguments)])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, result in {
        "a": network(),
        "b": network(lr=0.02),
        "c": statistics(),
        "d": linear(),
    }.items():
        Path(name).mkdir()
        Path(name, "result.json").write_text(json.dumps(result))
    return tmp_path


def files(place: Path) -> set[str]:
    return {str(p.relative_to(place)) for p in place.rglob("*") if p.is_file()}


def test_constants_that_must_agree():
    assert FORMAT == results.FORMAT
    assert (FORMATS, WIDTHS) == (draw.FORMATS, draw.WIDTHS)


def test_one_run_has_its_page_beside_its_result(command, here):
    said = command("a")
    assert said.exit_code == 0
    assert said.output == "Report: a/report.html\n"
    before = Path("a/report.html").read_bytes()
    assert command("a/result.json").exit_code == 0
    assert Path("a/report.html").read_bytes() == before


def test_several_runs_and_figures(command, here):
    said = command(
        "a", "b", "c", "--figures", "deep/figs", "--format", "pdf", "--title", "Mine & yours"
    )
    assert said.exit_code == 0, said.output
    assert "<h1>Mine &amp; yours</h1>" in Path("comparison.html").read_text()
    made = {p.name for p in Path("deep/figs").iterdir()}
    assert {"loss-network-1.pdf", "cost.pdf"} <= made
    assert all(p.read_bytes().startswith(b"%PDF") for p in Path("deep/figs").iterdir())
    assert f"Figures: {len(made)} files in deep/figs" in said.output


AGAIN = {
    "cot": "--widths 4 --lr 0.03 --epochs 1 --seed 3 --no-bias --n-grid 40 --rho 1.5 --radius 64 "
    "--output relu --no-standardize",
    "ridge": "--model ridge --lam 0.3 --steps 5 --no-standardize --no-bias",
    "lasso": "--model lasso --lam 0.02 --steps 5",
    "stack": "--method stack --activation tanh --steps 2 --box 3 --n-relu 300 --widths 3",
    "forward_mode": "--method forward_mode --activation tanh --attention sigmoid --steps 2 --widths 2 "
    "--lr 0.2 --signal-radius 9",
    "newton": "--model linear --optimizer newton",
    "gd": "--model linear --lr 0.05 --steps 7",
}
"""Settings away from their defaults, so that one that is dropped is seen."""
SLOW = ("stack", "forward_mode", "newton", "gd")


@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=pytest.mark.slow if k in SLOW else ()) for k in AGAIN]
)
def test_the_command_on_the_page_does_the_same_run(
    icgd_command, command, table_csv, tmp_path, monkeypatch, kind
):
    monkeypatch.chdir(tmp_path)
    target = "y,y2" if kind == "cot" else "y"
    asked = ["run", table_csv, "--target", target, *AGAIN[kind].split(), "--out", "first"]
    assert icgd_command(*asked).exit_code in (0, 1)
    assert command("first").exit_code == 0
    page = Path("first", "report.html").read_text()
    shown = re.search(r"<pre><code>(icgd run .*?)</code></pre>", page).group(1)
    words = shlex.split(shown.replace("&#39;", "'"))
    assert icgd_command(*words[1:], "--out", "second").exit_code in (0, 1), words
    first, second = (json.loads(Path(n, "result.json").read_text()) for n in ("first", "second"))
    for key in set(first) - {"seconds"}:
        assert first[key] == second[key], key


BAD = {
    "no such run": (["nowhere"], ["nowhere", "icgd run"]),
    "no result": (["empty"], ["empty has no result.json", "--out"]),
    "cut short": (["cut"], ["cut/result.json", "not complete JSON"]),
    "no JSON": (["page.html"], ["page.html", "not complete JSON"]),
    "not UTF-8": (["latin"], ["latin/result.json", "UTF-8"]),
    "a list": (["list"], ["holds no result"]),
    "deep": (["deep"], ["deep/result.json"]),
    "another version": (["next"], ["'icgd-result/2'", "icgd-result/1"]),
    "no list in a curve": (["curve"], ["'error'", "'round_bound'"]),
    "twice": (["a", "./a/result.json"], ["once", "a/result.json"]),
    "too many": ([f"r{i}" for i in range(9)], ["1 to 8", "9"]),
    "none": ([], ["RUN", "--help"]),
    "no page": (["a", "--out", "a/result.json"], ["--out", ".html"]),
    "no place": (["a", "--out", "not/there.html"], ["--out", "not/there.html", "mkdir"]),
    "a directory": (["a", "--out", "dir.html"], ["--out", "directory"]),
    "format": (["a", "--figures", "f", "--format", "gif"], ["--format", "'gif'", "png, pdf, svg"]),
    "format alone": (["a", "--format", "pdf"], ["--format", "--figures"]),
    "width": (["a", "--figures", "f", "--width", "huge"], ["--width", "'huge'", "single, double"]),
    "width not finite": (["a", "--figures", "f", "--width", "nan"], ["--width", "'nan'"]),
    "figures in a file": (["a", "--figures", "page.html"], ["--figures", "directory"]),
    "figure taken": (["a", "--figures", "taken"], ["loss.png is a directory there"]),
}


@pytest.fixture
def damaged(here) -> Path:
    contents = {
        "cut": json.dumps(network())[:500],
        "latin": b'{"format": "\xff"}',
        "list": "[1, 2]",
        "deep": "[" * 100_000,
        "next": json.dumps({**network(), "format": "icgd-result/2"}),
    }
    curve = network()
    del curve["curves"]["error"]["round_bound"]
    contents["curve"] = json.dumps(curve)
    for name, content in contents.items():
        Path(name).mkdir()
        Path(name, "result.json").write_bytes(
            content if isinstance(content, bytes) else content.encode()
        )
    for name in ("empty", "dir.html", "taken/loss.png"):
        Path(name).mkdir(parents=True)
    Path("page.html").write_text("<p>")
    return here


@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_writes_nothing(command, damaged, case):
    arguments, words = BAD[case]
    before = files(damaged)
    said = command(*arguments)
    assert said.exit_code == 2, said.output
    (line,) = said.stderr.splitlines()
    assert line.startswith("icgd: error: ")
    for word in words:
        assert word in line
    assert said.stdout == ""
    assert files(damaged) == before
    assert not list(damaged.rglob(".*"))


def test_a_place_without_permission(command, here, monkeypatch):
    monkeypatch.setattr("icgd.cli.output._may_write", lambda directory: False)
    said = command("a")
    assert said.exit_code == 2
    assert "No permission" in said.stderr
    assert not Path("a/report.html").exists()


@pytest.mark.usefixtures("unpainted")
def test_a_full_disk_leaves_the_old_page(command, here, monkeypatch):
    Path("a/report.html").write_text("old")

    def full(self, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    said = command("a", "--figures", "figs")
    assert said.exit_code == 2
    assert "No space left" in said.stderr
    assert Path("a/report.html").read_text() == "old"
    assert files(here) == {*(f"{n}/result.json" for n in "abcd"), "a/report.html"}


def test_numbers_that_are_not_finite_and_missing_curves_are_no_mistake(command, here):
    bare = network()
    del bare["curves"]
    bare["max_error"] = float("nan")
    Path("a/result.json").write_text(json.dumps(bare))  # NaN, as other writers of JSON have it
    said = command("a", "b")
    assert said.exit_code == 0
    assert "not finite" in Path("comparison.html").read_text()


def test_help_is_instant_and_the_manual_has_every_option(command):
    manual = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
    text = manual.read_text(encoding="utf-8")
    section = text[text.index("## icgd report") :].partition("\n## ")[0]
    for option in set(re.findall(r"--[a-z][a-z-]+", command("--help").output)) - {"--help"}:
        assert f"`{option}`" in section, option


# -- in a browser ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    found = find_browser()
    if isinstance(found, str):
        pytest.skip(found)
    window = Browser(*found, tmp_path_factory.mktemp("profile"))
    yield window
    window.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("names", ["a", "abcd"])
def test_pages_open_from_disk_without_a_request_or_a_word_on_the_console(
    command, here, browser, scheme, names
):
    hostile = statistics()
    name = "<img src=x onerror='document.title=\"owned\"'>"
    hostile["curves"]["path"]["coefficients"][name] = [1.0, 2.0, 3.0]
    hostile["notes"] = ["<script>document.title='owned'</script>"]
    Path("c/result.json").write_text(json.dumps(hostile))
    assert command(*names, "--out", "page.html").exit_code == 0
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.cdp("Emulation.setEmulatedMedia", {"media": "", "features": features})
    browser.resize(390, 800)
    browser.log("browser")
    browser.log("performance")
    page = (here / "page.html").as_uri()
    browser.open(page)
    browser.wait("document.querySelectorAll('.plot .main-svg').length > 0")
    drawn = browser.run(
        "return [...document.querySelectorAll('.plot')]"
        ".map(p => p.querySelectorAll('.scatterlayer .trace').length)"
    )
    assert drawn
    assert all(drawn)
    assert browser.log("browser") == []
    sent = [
        json.loads(entry["message"])["message"]["params"]["request"]["url"]
        for entry in browser.log("performance")
        if '"Network.requestWillBeSent"' in entry["message"]
    ]
    assert {url for url in sent if not url.startswith("data:")} <= {page}
    assert "owned" not in browser.run("return document.title")
    wide = browser.run("return [document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1]  # tables scroll in themselves, the page does not
    ink, ground = browser.run(
        "const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]"
    )
    assert (brightness(ink) > brightness(ground)) == (scheme == "dark")


def brightness(colour: str) -> int:
    return sum(int(part) for part in re.findall(r"\d+", colour)[:3])


def test_the_program_lists_the_command():
    assert CliRunner().invoke(app, ["report", "--help"]).exit_code == 0
