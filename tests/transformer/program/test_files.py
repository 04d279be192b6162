"""Programs on disk: what is saved is what runs, and what was not saved by us is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from cases import BY_NAME, HARD, data, identical, init
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

import icgd
from icgd.base.atomic.tensors import tensor_bytes
from icgd.errors import InvalidFile, InvalidParameter
from icgd.transformer.program import files

CASE = BY_NAME["mixed"]
ELSEWHERE = """
import sys
import torch
torch.set_num_threads(1)
import icgd
from safetensors.torch import load_file, save_file
given, out = load_file(sys.argv[1] + "/given.safetensors"), {}
init = [(given[f"W{i}"], given[f"b{i}"]) for i in range(int(sys.argv[2]))]
for name in sys.argv[3:]:
    program = icgd.Program.from_pretrained(sys.argv[1] + "/" + name)
    for executor in ("structured", "dense"):
        run = program.run(given["X"], given["Y"], init=init, executor=executor)
        for i, pair in enumerate(run.weights):
            for j, tensor in enumerate(pair):
                out[f"{name} {executor} {i} {j}"] = tensor.clone()
save_file(out, sys.argv[1] + "/out.safetensors")
"""


def program_of(**options):
    return icgd.compile(CASE.network, icgd.SGD(lr=CASE.lr), **options)


@pytest.fixture
def saved(tmp_path):
    program_of().save_pretrained(tmp_path / "program")
    return tmp_path / "program"


def test_programs_loaded_in_another_process_run_bit_for_bit(tmp_path):
    options = {"default": {}, "hard": HARD.options, "float32": {"dtype": torch.float32}}
    programs = {name: program_of(**chosen) for name, chosen in options.items()}
    for name, program in programs.items():
        program.save_pretrained(tmp_path / name)
    X, Y = data(CASE, 0, n=6)
    start = init(CASE, 0)
    given = {"X": X, "Y": Y}
    for i, (W, b) in enumerate(start):
        given |= {f"W{i}": W, f"b{i}": b}
    save_file(given, tmp_path / "given.safetensors")
    arguments = ["-W", "error", "-c", ELSEWHERE, str(tmp_path), str(CASE.n_layers), *programs]
    subprocess.run([sys.executable, *arguments], check=True)
    out = load_file(tmp_path / "out.safetensors")
    for name, program in programs.items():
        for executor in ("structured", "dense"):
            run = program.run(X, Y, init=start, executor=executor)
            for i, pair in enumerate(run.weights):
                for j, tensor in enumerate(pair):
                    assert torch.equal(out[f"{name} {executor} {i} {j}"], tensor)


def test_everything_comes_back(saved):
    program, loaded = program_of(), icgd.Program.from_pretrained(saved)
    left, right = program.state_dict(), loaded.state_dict()
    assert left.keys() == right.keys()
    assert all(torch.equal(left[name], right[name]) for name in left)
    assert loaded.config == program.config
    assert loaded.certificate == program.certificate
    assert (loaded.radius, loaded.step.slope, loaded.dtype) == (
        program.radius,
        program.step.slope,
        program.dtype,
    )
    assert repr(loaded) == repr(program)
    assert not any(p.requires_grad for p in loaded.parameters())


def test_the_weights_in_the_file_are_the_weights_that_run(tmp_path):
    program = program_of()
    program.step.attention.banks["inputs"].output["delta>weight_backward"].data *= 2
    program.save_pretrained(tmp_path)
    X, Y = data(CASE, 0, n=4)
    start = init(CASE, 0)
    with pytest.raises(InvalidFile, match=r"not the ones config\.json compiles to"):
        icgd.Program.from_pretrained(tmp_path)
    loaded = icgd.Program.from_pretrained(tmp_path, allow_altered=True)
    altered = loaded.run(X, Y, init=start)
    assert identical(altered.weights, program.run(X, Y, init=start).weights)
    assert not identical(altered.weights, program_of().run(X, Y, init=start).weights)


def test_the_config_explains_every_coordinate(saved):
    config = json.loads((saved / "config.json").read_text())
    for slots in config["slots"].values():
        assert all(slot["name"] and slot["start"] >= 0 for slot in slots)
    assert [s["name"] for s in config["slots"]["block"]] == list(program_of().layout.names)
    assert all(slot["meaning"] for slot in config["slots"]["block"])
    assert config["icgd_version"] == icgd.__version__


def test_saving_again_replaces_and_leaves_nothing_behind(saved):
    names = sorted(path.name for path in saved.iterdir())
    other = icgd.compile(icgd.Network((2, 2)), icgd.SGD(lr=0.5))
    other.save_pretrained(saved)
    assert sorted(path.name for path in saved.iterdir()) == names
    assert icgd.Program.from_pretrained(saved).config == other.config


def test_a_save_that_fails_leaves_the_old_program(saved, monkeypatch):
    before = {path.name: path.read_bytes() for path in saved.iterdir()}

    def broken(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("icgd.base.atomic.file_set.sync_file", broken)
    with pytest.raises(InvalidFile, match=r"Nothing was written to .*program: No space left"):
        program_of(radius=64.0).save_pretrained(saved)
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before


# -- files that are not ours ----------------------------------------------------------------------


def edit(path, change):
    config = json.loads((path / "config.json").read_text())
    change(config)
    (path / "config.json").write_text(json.dumps(config))


def put(*keys, value):
    def change(config):
        for key in keys[:-1]:
            config = config[key]
        config[keys[-1]] = value

    return lambda path: edit(path, change)


def drop(*keys):
    def change(config):
        for key in keys[:-1]:
            config = config[key]
        del config[keys[-1]]

    return lambda path: edit(path, change)


def text(content):
    return lambda path: (path / "config.json").write_text(content)


def weights(change):
    def damage(path):
        stored = load_file(path / "model.safetensors")
        change(stored)
        save_file(stored, path / "model.safetensors")

    return damage


def nan_in(stored):
    stored["step.attention.levels"][3] = float("nan")


def truncate(path):
    whole = (path / "model.safetensors").read_bytes()
    (path / "model.safetensors").write_bytes(whole[: len(whole) // 2])


DAMAGE = {
    "no config": (lambda p: (p / "config.json").unlink(), "No config.json in .* Pass a directory"),
    "no json": (text("{"), "not valid JSON .* save again"),
    "binary": (lambda p: (p / "config.json").write_bytes(b"\xff\xfe\x00"), "not valid JSON"),
    "nested": (text("[" * 100_000), "config.json"),
    "a list": (text("[1, 2]"), "must hold a JSON object. Got list"),
    "foreign": (text('{"model_type": "bert"}'), "was not written by icgd .*save_pretrained"),
    "other format": (put("format", value="icgd-program/99"), "was not written by icgd"),
    "unknown construction": (
        put("construction", value="magic"),
        "construction .magic., which is not registered here.*icgd.register",
    ),
    "no problem": (drop("problem"), "does not describe a program"),
    "no lr": (drop("optimizer", "lr"), "does not describe a program"),
    "nan lr": (put("optimizer", "lr", value=float("nan")), "does not describe a program.*lr`"),
    "no widths": (put("problem", "widths", value=[]), "does not describe a program.*widths`"),
    "widths of text": (put("problem", "widths", value="ab"), "does not describe a program"),
    "widths null": (put("problem", "widths", value=None), "does not describe a program"),
    "too few tokens": (put("options", "n_grid", value=3), "does not describe a program.*`n_grid`"),
    "strange option": (put("options", "heads", value=3), "does not describe a program"),
    "options as list": (put("options", value=[1]), "does not describe a program"),
    "unknown dtype": (put("dtype", value="float8"), "does not describe a program"),
    "other widths": (put("problem", "widths", value=[2, 2]), "does not match|has shape"),
    "other depth of bias": (put("problem", "bias", value=False), "is on one side only"),
    "other dtype": (put("dtype", value="float32"), "has shape"),
    "no weights": (
        lambda p: (p / "model.safetensors").unlink(),
        "No model.safetensors .* save again",
    ),
    "weights are text": (
        lambda p: (p / "model.safetensors").write_text("weights"),
        "not a readable",
    ),
    "no bytes": (lambda p: (p / "model.safetensors").write_bytes(b""), "not a readable"),
    "half the bytes": (truncate, "not a readable safetensors file .* is damaged"),
    "nan weight": (weights(nan_in), "'step.attention.levels' .* holds NaN or infinity"),
    "one weight less": (weights(lambda w: w.pop("step.attention.levels")), "is on one side only"),
    "one weight more": (weights(lambda w: w.update(extra=torch.zeros(1))), "is on one side only"),
    "short weight": (
        weights(lambda w: w.update({"step.attention.levels": torch.zeros(3, dtype=torch.float64)})),
        "has shape",
    ),
}


def stamped(path):
    """Give changed files checksums that fit, where they still are files of that kind."""
    try:
        config = json.loads((path / "config.json").read_text())
        metadata = {"format": files.FORMAT, "config": files.config_digest(config)}
        content = tensor_bytes(load_file(path / "model.safetensors"), metadata)  # reads all of it
    except (ValueError, OSError, RecursionError, SafetensorError):
        return
    (path / "model.safetensors").write_bytes(content)


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_and_foreign_files_are_refused(saved, name):
    """With their checksums, which any change breaks, and by what they say even if those are made to fit."""
    damage, message = DAMAGE[name]
    damage(saved)
    with pytest.raises(InvalidFile):
        icgd.Program.from_pretrained(saved)
    stamped(saved)
    with pytest.raises(InvalidFile, match=f"(?s){message}"):
        icgd.Program.from_pretrained(saved)


def test_widths_that_fit_no_machine_are_refused_by_their_size(saved):
    """The file may be true: it is the machine that is too small, and the error says so."""
    put("problem", "widths", value=[10**6, 1])(saved)
    stamped(saved)
    with pytest.raises(icgd.TooLarge, match=r"304 TB of memory, most of it for `widths`"):
        icgd.Program.from_pretrained(saved)


def test_a_config_belongs_to_its_weights(saved):
    """A value that any compiler could have written is refused all the same, unless alterations are allowed."""
    edit(saved, lambda config: config.update(icgd_version="0.0.9"))
    with pytest.raises(
        InvalidFile, match=r"config\.json is not the one that model\.safetensors was saved with"
    ):
        icgd.Program.from_pretrained(saved)
    assert icgd.Program.from_pretrained(saved, allow_altered=True).config == program_of().config


def test_a_slope_that_changed_on_disk_is_refused(tmp_path):
    """No weight of a regression without a representation depends on its slope: only the checksum tells."""
    icgd.compile(icgd.LinearRegression(2, 5), icgd.GD(0.1)).save_pretrained(tmp_path)
    put("problem", "slope", value=0.2)(tmp_path)
    with pytest.raises(InvalidFile, match="was edited"):
        icgd.Program.from_pretrained(tmp_path)


NONSENSE = [
    ("optimizer", "name", "GDx"),
    ("optimizer", "lr", "0.1"),
    ("optimizer", "lr", -0.1),
    ("optimizer", "lr", True),
    ("options", "n_grid", -128),
    ("options", "n_grid", 32.5),
    ("options", "n_grid", "32"),
    ("options", "temperature", "warm"),
    ("options", "radius", [8.0]),
    ("options", "rho", None),
    ("options", "margin", float("inf")),
    ("problem", "bias", 1),
    ("problem", "widths", [2, True, 1]),
    ("problem", "widths", [2]),
    ("problem", "activation", 3),
    ("problem", "extra", 1),
]


@pytest.mark.parametrize("allow_altered", [False, True])
@pytest.mark.parametrize(("part", "key", "value"), NONSENSE)
def test_a_config_of_nonsense_is_refused_by_name(saved, part, key, value, allow_altered):
    put(part, key, value=value)(saved)
    stamped(saved)
    with pytest.raises(InvalidFile, match=f"(?s)does not describe a program: `{part}.{key}"):
        icgd.Program.from_pretrained(saved, allow_altered=allow_altered)


@pytest.mark.parametrize("digits", [400, 5000])
def test_numbers_of_thousands_of_digits_are_refused(saved, digits):
    put("optimizer", "lr", value=0.123)(saved)
    text = (saved / "config.json").read_text().replace("0.123", "9" * digits)
    assert "999" in text
    (saved / "config.json").write_text(text)
    with pytest.raises(InvalidFile):
        icgd.Program.from_pretrained(saved, allow_altered=True)


def test_programs_of_the_format_before_load_with_a_warning(saved):
    """They had no checksum; their weights are still compared with what the config compiles to."""
    put("format", value=files.WITHOUT_DIGEST)(saved)
    save_file(load_file(saved / "model.safetensors"), saved / "model.safetensors")
    with pytest.warns(UserWarning, match="no checksum"):
        assert icgd.Program.from_pretrained(saved).config == program_of().config
    put("format", value=files.FORMAT)(saved)
    with pytest.raises(InvalidFile, match="has lost its checksum"):
        icgd.Program.from_pretrained(saved)


@pytest.mark.parametrize("lam", [0.1, 0.25])
def test_a_lasso_in_single_precision_loads(tmp_path, lam):
    """Its threshold lr * lam is rounded when it is compiled: that is no alteration."""
    program = icgd.compile(icgd.Lasso(2, lam), icgd.GD(0.1), dtype=torch.float32)
    program.save_pretrained(tmp_path)
    assert icgd.Program.from_pretrained(tmp_path).config == program.config


def test_saved_files_have_ordinary_modes(saved):
    (saved.parent / "ordinary").write_text("")
    expected = (saved.parent / "ordinary").stat().st_mode
    assert {path.stat().st_mode for path in saved.iterdir()} == {expected}


@pytest.mark.parametrize("where", ["missing", "empty", "file"])
def test_a_path_without_a_program_is_refused_with_the_way_to_make_one(tmp_path, where):
    path = tmp_path / where
    if where == "empty":
        path.mkdir()
    if where == "file":
        path.write_text("hello")
    with pytest.raises(InvalidFile, match=r"Pass a directory made by program\.save_pretrained"):
        icgd.Program.from_pretrained(str(path))


# -- the Hub --------------------------------------------------------------------------------------


@pytest.fixture
def hub(saved, monkeypatch, tmp_path):
    """A Hub with one repository, user/repo; gives back what it was asked for."""
    asked = []

    def download(name, **options):
        asked.append((name, options))
        if name != "user/repo":
            raise FileNotFoundError(f"no {name} here\nand more")
        return str(saved)

    monkeypatch.setattr("icgd.transformer.program.program.snapshot_download", download)
    monkeypatch.chdir(tmp_path)
    return asked


@pytest.mark.parametrize("options", [{}, {"revision": "main"}])
def test_a_name_without_a_directory_comes_from_the_hub(hub, options):
    loaded = icgd.Program.from_pretrained("user/repo", **options)
    assert loaded.config == program_of().config
    patterns = ["config.json", "model.safetensors"]
    assert hub == [("user/repo", {"allow_patterns": patterns, **options})]


def test_a_directory_goes_before_the_hub(hub, tmp_path):
    other = icgd.compile(icgd.Network((2, 2)), icgd.SGD(lr=0.5))
    other.save_pretrained(tmp_path / "user" / "repo")
    assert icgd.Program.from_pretrained("user/repo").config == other.config
    assert hub == []


def test_a_name_nobody_has_says_where_it_was_looked_for(hub):
    with pytest.raises(
        InvalidFile, match=r"no directory 'user/other'.*Hub.*\(no user/other here\)"
    ):
        icgd.Program.from_pretrained("user/other")
    assert len(hub) == 1


@pytest.mark.parametrize("name", ["nowhere", "./user/repo", "/user/repo", "a/user/repo", "../repo"])
def test_what_cannot_be_a_repository_is_not_looked_up(hub, name):
    for given in (name, Path(name), Path("user/repo")):
        with pytest.raises(InvalidFile, match=r"Pass a directory made by program\.save_pretrained"):
            icgd.Program.from_pretrained(given)
    assert hub == []


@pytest.mark.parametrize("name", [None, "", 3])
def test_what_is_no_name_at_all_is_refused(name):
    with pytest.raises(
        InvalidParameter, match="`pretrained_model_name_or_path` must be a directory"
    ):
        icgd.Program.from_pretrained(name)


@pytest.mark.parametrize("where", ["file", "file/deep"])
def test_a_file_in_the_place_of_the_directory_is_kept(tmp_path, where):
    (tmp_path / "file").write_text("hello")
    with pytest.raises(InvalidFile, match="there is a file of that name"):
        program_of().save_pretrained(tmp_path / where)
    assert (tmp_path / "file").read_text() == "hello"


def test_a_config_that_contradicts_its_weights_is_refused(saved):
    """The promised range must be that of the stored grid, or the certificate is a lie."""
    edit(saved, lambda config: config["options"].update(radius=16.0))
    with pytest.raises(InvalidFile):
        icgd.Program.from_pretrained(saved)


def test_no_file_could_carry_code(saved):
    assert {path.suffix for path in saved.iterdir()} <= {".json", ".safetensors", ".md"}
