"""The viewer in a real browser, opened from a file."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest
from tests.pages.viewer import samples
from tests.pages.viewer.driver import Viewer

from icgd.pages.viewer import page, serve
from icgd.transformer.trace.arrays import ArrayStore, decode, look_up
from icgd.transformer.trace.format import Trace


def numbers(trace):
    """Pools of a trace's JSON, for look_up."""
    return {name: decode(name, pool) for name, pool in Trace(**trace).arrays.items()}


# -- any trace: these hold whatever was recorded ---------------------------------------------------


def test_it_opens_without_error_and_asks_nothing_of_the_network(open_trace, trace_path):
    viewer = open_trace(trace_path)
    assert viewer.failure is None
    viewer.press("ArrowRight", "ArrowRight", "d", "?", "Escape", "t", "End")
    assert viewer.problems() == []


def test_stepping_lights_what_the_mask_lets_it_see(open_trace, trace_path):
    viewer = open_trace(trace_path)
    trace = viewer.trace
    for i, step in enumerate(trace["steps"][:40]):
        planned = trace["schedule"][step["place"]]
        assert viewer.position == i
        assert viewer.lit == sorted(set(step["reads"]))
        assert viewer.new == [step["writes"]]
        assert viewer.selected == step["writes"]
        assert viewer.text("#step-type").startswith(planned["kind"])
        assert f"round {step['round']:,} of {trace['n_rounds']:,}" in viewer.text("#where")
        viewer.press("ArrowRight")
    viewer.press("End", "ArrowRight")
    assert viewer.position == len(trace["steps"]) - 1
    assert viewer.lit == sorted(set(trace["steps"][-1]["reads"]))
    assert viewer.problems() == []


def test_hovering_reads_the_numbers_of_the_trace(open_trace, trace_path):
    viewer = open_trace(trace_path)
    viewer.press("End")
    pools = numbers(viewer.trace)
    block = viewer.trace["blocks"][viewer.selected]
    for name, reference in block["slots"].items():
        if not isinstance(reference, list) or len(reference) < 3:
            continue
        value = look_up(pools, reference)
        selector = f'#block-panel .map[data-slot="{name}"]'
        first = viewer.hover(selector, 0.001, 0.001)
        assert first["title"].startswith(f"{name}[0")
        assert float(first["value"]) == value.flat[0]
        last = viewer.hover(selector, 0.999, 0.999)
        assert float(last["value"]) == value.flat[-1]
        if name in block.get("away", {}):
            away = look_up(pools, block["away"][name])
            for read, number, difference in zip(
                (first, last), value.flat[[0, -1]], away.flat[[0, -1]], strict=True
            ):
                # NaN: not known for this entry, and said so.
                known = not np.isnan(difference)
                assert read["difference"] == "" or float(read["difference"]) == difference
                assert read["exact"] == "" or float(read["exact"]) == number - difference
                assert (read["difference"] != "", read["exact"] != "") == (known, known)


def test_playing_reaches_the_end_and_stops(open_trace, trace_path):
    viewer = open_trace(trace_path)
    viewer.run(
        "const s = document.querySelector('#speed'); s.value = '60'; s.dispatchEvent(new Event('change'))"
    )
    viewer.click("#to-play")
    viewer.browser.wait(
        "+document.body.dataset.position === arguments[0]", len(viewer.trace["steps"]) - 1
    )
    viewer.browser.wait(
        "document.querySelector('#to-play').getAttribute('aria-pressed') === 'false'"
    )
    assert viewer.problems() == []


@pytest.mark.parametrize("size", [(1280, 800), (1000, 700), (390, 844)])
def test_nothing_sticks_out_to_the_side(open_trace, trace_path, size):
    viewer = open_trace(trace_path, size=size)
    wide, room = viewer.run("return [document.documentElement.scrollWidth, innerWidth]")
    assert wide <= room


def test_one_view_needs_no_scrolling(open_trace, trace_path):
    viewer = open_trace(trace_path)
    tall, room = viewer.run("return [document.documentElement.scrollHeight, innerHeight]")
    assert tall <= room


# -- the sample network ----------------------------------------------------------------------------


@pytest.fixture
def network(open_trace, tmp_path):
    path = tmp_path / "sample.json"
    path.write_text(samples.text(samples.network()))
    return lambda **options: open_trace(path, **options)


def test_keys_move_by_step_and_round(network):
    viewer = network()
    for key, position in [
        ("ArrowRight", 1),
        (".", 2),
        ("Shift+ArrowRight", 4),
        ("ArrowLeft", 3),
        (",", 2),
        ("Shift+ArrowLeft", 0),
        ("End", 15),
        ("Home", 0),
        ("PageDown", 4),
        ("PageUp", 0),
    ]:
        viewer.press(key)
        assert viewer.position == position, key


def test_gaps_are_told(network):
    viewer = network()
    assert viewer.text("#notice") == ""
    viewer.press("Shift+ArrowRight", "Shift+ArrowRight")
    assert viewer.text("#notice") == "2 rounds before this one not recorded in detail"
    viewer.press("ArrowLeft")
    assert viewer.text("#notice") == "the next 2 rounds not recorded in detail"
    assert "4 of 6 rounds are recorded in detail: 1–2, 5–6" in viewer.text(".coverage")


def test_only_gates_of_this_kind_of_step_are_open(network):
    viewer = network()
    for kind in ("x", "forward", "y", "backward"):
        opened = viewer.run(
            "return [...document.querySelectorAll('.stage[data-stage=\"0\"] .gate-group')]"
            ".filter(g => +g.dataset.open).map(g => g.dataset.group)"
        )
        assert opened == [kind]
        viewer.press("ArrowRight")


def test_a_head_not_recorded_is_recomputed_and_said_to_be(network):
    viewer = network()
    assert viewer.run("return document.querySelector('.grid-heads').dataset.head") == "1"
    assert "as recorded" in viewer.text(".bump-frame .caption")
    viewer.run(
        "const p = document.querySelector('.head-picker'); p.value = 2; p.dispatchEvent(new Event('input'))"
    )
    assert "recomputed" in viewer.text(".bump-frame .caption")
    asked = look_up(
        numbers(viewer.trace), viewer.trace["steps"][0]["stages"][1]["heads"][0]["asked"]
    )
    assert f"asks {float(asked[2])!r}" in viewer.text(".fact")


def test_blocks_are_chosen_by_click_and_by_keys(network):
    viewer = network()
    viewer.press("End")
    viewer.press("[", "[")
    order = viewer.run(
        "return [...document.querySelectorAll('#strip .block')].map(e => +e.dataset.block)"
    )
    assert viewer.selected == order[-3]
    viewer.run("document.querySelector('#strip [aria-selected=\"true\"]').focus()")
    viewer.press("ArrowLeft")
    assert viewer.selected == order[-4]
    assert viewer.run("return +document.activeElement.dataset.block") == order[-4]
    viewer.press("Home")
    assert viewer.selected == 0
    viewer.click(f'#strip [data-block="{order[-2]}"]')
    assert viewer.selected == order[-2]
    viewer.press(".", ",")
    assert viewer.selected == viewer.trace["steps"][viewer.position]["writes"]


def test_cells_are_read_by_keys_and_aloud(network):
    viewer = network()
    weight = look_up(numbers(viewer.trace), viewer.trace["blocks"][4]["slots"]["weight"])
    viewer.press("Tab")
    viewer.run("document.querySelector('#block-panel .map[data-slot=\"weight\"]').focus()")
    viewer.press("ArrowRight", "ArrowDown")
    assert viewer.readout()["title"] == "weight[1, 1]"
    assert float(viewer.readout()["value"]) == weight[1, 1]
    assert viewer.text("#spoken").startswith(f"weight[1, 1]: {float(weight[1, 1])!r}, exact ")
    viewer.press(".")
    assert viewer.position == 1
    assert viewer.run("return document.activeElement.dataset.slot") == "weight"
    viewer.press("Escape")
    assert viewer.readout() is None


def test_links_lead_to_a_place_and_follow_it(network):
    viewer = network(link="#round=5&step=3&block=1")
    assert viewer.position == 10
    assert viewer.selected == 1
    viewer.press("ArrowRight")
    viewer.browser.wait("location.hash === '#round=5&step=4'")
    viewer.run("location.hash = '#round=1&step=2'")
    viewer.browser.wait("document.body.dataset.position === '1'")


def test_a_click_on_a_curve_goes_to_the_round_or_near_it(network):
    viewer = network()
    box = viewer.box("#curves-panel svg")
    viewer.browser.point(box["right"] - 12, box["y"] + 30, click=True)
    assert viewer.trace["steps"][viewer.position]["round"] == 6
    viewer.browser.point(box["x"] + 0.46 * box["width"], box["y"] + 30, click=True)
    assert viewer.text("#notice") == "Round 3 is not recorded in detail; this is round 2."


def test_the_slider_is_dragged_and_told(network):
    viewer = network()
    box = viewer.box("#slider")
    viewer.browser.point(box["right"] - 2, box["y"] + 8, click=True)
    assert viewer.position == 15
    value = viewer.run("return document.querySelector('#slider').getAttribute('aria-valuetext')")
    assert value == "round 6 of 6 · step 4 of 4 · backward, layer 1"


def test_the_theme_is_chosen_and_changes_the_colours(network):
    viewer = network()
    viewer.run("localStorage.clear(); location.reload()")
    viewer.browser.wait("document.body.dataset.ready")
    seen = set()
    for _ in range(3):
        viewer.press("t")
        seen.add(
            (
                viewer.text("#theme"),
                viewer.run("return getComputedStyle(document.documentElement).backgroundColor"),
            )
        )
    assert {name for name, _ in seen} == {"theme: auto", "theme: light", "theme: dark"}
    assert len({colour for _, colour in seen}) == 2


def test_help_lists_the_keys_and_closes(network):
    viewer = network()
    viewer.press("?")
    assert viewer.run("return document.querySelector('#help').open")
    assert "play or pause" in viewer.text("#help")
    viewer.press("ArrowRight")
    assert viewer.position == 0
    viewer.press("Escape")
    assert not viewer.run("return document.querySelector('#help').open")


def test_everything_with_a_role_has_a_name(network):
    viewer = network()
    nameless = viewer.run(
        "return [...document.querySelectorAll('button, select, input, [role], [tabindex=\"0\"]')]"
        ".filter(e => !e.closest('[hidden]'))"
        ".filter(e => !(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length"
        " || e.id === 'spoken' || e.getAttribute('role') === 'status')).map(e => e.outerHTML.slice(0, 90))"
    )
    assert nameless == []


def test_it_opens_from_its_server_too(browser):
    content = page(samples.text(samples.network())).encode()
    with serve({"/": ("text/html; charset=utf-8", content)}) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        viewer = Viewer(browser, server.address, (1280, 800))
        viewer.press("ArrowRight")
        assert viewer.position == 1
        assert viewer.problems() == []
        server.close()
        thread.join()


# -- long and large --------------------------------------------------------------------------------


def test_thousands_of_blocks_are_never_all_drawn(open_text):
    many = samples.network(300, tuple(range(1, 301)))
    viewer = open_text(json.dumps(many))
    viewer.press("End")
    assert viewer.position == 1199
    drawn = viewer.run("return document.querySelectorAll('#strip .block').length")
    assert 10 <= drawn <= 40
    assert viewer.run("return document.querySelectorAll('*').length") < 2500
    assert viewer.lit == sorted(many["steps"][-1]["reads"])


def test_a_seen_block_outside_the_window_is_named(open_text):
    content = samples.network(40, tuple(range(1, 41)))
    content["steps"][-1]["reads"] = [0, content["steps"][-1]["reads"][1]]
    viewer = open_text(json.dumps(content))
    viewer.press("End")
    assert viewer.lit == sorted(content["steps"][-1]["reads"])
    assert viewer.text("#strip .outside-block").startswith("sees B₁, ")
    viewer.click("#strip .outside-block")
    assert viewer.selected == 0
    assert viewer.run("return !!document.querySelector('#strip .block[data-block=\"0\"]')")


def test_large_matrices_are_drawn_and_read(open_text):
    content, store, size = samples.network(), ArrayStore(), 128
    weight = store.put(np.arange(size * size, dtype=float).reshape(size, size))
    content["blocks"] = [{**b, "slots": {"weight": weight}, "away": {}} for b in content["blocks"]]
    content["steps"] = [{**s, "stages": []} for s in content["steps"]]
    content |= {"curves": {}, "grids": [], "arrays": store.pools()}
    viewer = open_text(samples.text(content))
    read = viewer.hover('#block-panel .map[data-slot="weight"]', 0.999, 0.999)
    assert read["title"] == "weight[127, 127]"
    assert float(read["value"]) == size**2 - 1
    assert (
        viewer.run("return document.querySelector('#layer-panel .panel-scroll > .unknown').hidden")
        is False
    )


# -- bad and hostile files -------------------------------------------------------------------------


HOSTILE = (
    '</script><script>document.title="hit"</script><img src=x onerror="document.title=\'hit\'">'
)


def everywhere(value, mark):
    """The same content with a mark in every text that is free."""
    if isinstance(value, dict):
        fixed = ("format", "feed", "origin", "over", "open", "data", "encoding", "kind_of")
        return {k: v if k in fixed else everywhere(v, mark) for k, v in value.items()}
    if isinstance(value, list):
        return value if value and value[0] in ("f8", "f4") else [everywhere(v, mark) for v in value]
    return mark + value if isinstance(value, str) else value


def test_hostile_names_are_shown_and_never_run(open_text):
    content = everywhere(samples.network(), HOSTILE)
    for stage, original in zip(content["stages"], samples.network()["stages"], strict=True):
        stage["kind"] = original["kind"]
    viewer = open_text(json.dumps(content))
    assert viewer.failure is None
    for _ in range(6):
        viewer.press("ArrowRight", "d")
    viewer.press("?", "Escape")
    viewer.click("#open-about")
    assert HOSTILE in viewer.text("#about")
    assert viewer.run("return document.title") != "hit"
    assert (
        viewer.run("return document.querySelectorAll('img, body script:not([type])').length") <= 1
    )
    assert viewer.problems() == []


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda text: text[: len(text) // 2], "not valid JSON: truncated or damaged"),
        (lambda text: "", "not valid JSON"),
        (lambda text: text.replace("icgd-trace/1", "icgd-trace/9"), "reads “icgd-trace/1”"),
        (lambda text: text.replace('"n_rounds": 6', '"n_rounds": NaN'), "not valid JSON"),
        (
            lambda text: text.replace('"n_rounds": 6', '"n_rounds": 1000000000'),
            "numbers for 1000000000 rounds",
        ),
        (
            lambda text: text.replace('["f8", 0, 3]', '["f8", 99999999, 3]'),
            "behind the end of pool f8",
        ),
        (
            lambda text: text.replace('"writes": 4,', '"writes": 1000000000,'),
            "block that is not there",
        ),
        (lambda text: HOSTILE, "not valid JSON"),
    ],
)
def test_bad_files_are_explained(open_text, damage, reason):
    text = samples.text(samples.network())
    assert damage(text) != text
    viewer = open_text(damage(text))
    assert reason in viewer.failure
    assert viewer.run("return document.title") != "hit"
    assert viewer.problems() == []


def test_a_trace_of_curves_alone_says_so(open_text):
    content = samples.network() | {"steps": [], "rounds": []}
    viewer = open_text(samples.text(content))
    assert "No step of this run is recorded" in viewer.failure
    assert viewer.problems() == []
