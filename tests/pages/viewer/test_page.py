"""The page: whole in itself, nothing in it can be executed but its own script."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from tests.pages.viewer import samples

from icgd.errors import InvalidFile
from icgd.pages.viewer import page, write_page
from icgd.pages.viewer.bundle import BrokenApp, bundle

HOSTILE = "</script><script>alert(1)</script><!--<script>\u2028]]>&lt;\"'`${x}\\u003c"


class Elements(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.content: list[str] = []
        self.inside = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        self.content.append("")
        self.inside = True

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.content[-1] += data

    def of(self, tag):
        return [
            (attributes, content)
            for (name, attributes), content in zip(self.found, self.content, strict=True)
            if name == tag
        ]


def sha(text):
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def policy(elements):
    (found,) = [
        a["content"]
        for a, _ in elements.of("meta")
        if a.get("http-equiv") == "Content-Security-Policy"
    ]
    return dict(part.split(" ", 1) for part in found.split("; "))


def test_the_policy_allows_this_script_and_this_style_and_nothing_else():
    elements = Elements(page(samples.text(samples.network())))
    (data, script), (style,) = elements.of("script"), elements.of("style")
    assert policy(elements) == {
        "default-src": "'none'",
        "script-src": f"'{sha(script[1])}'",
        "style-src": f"'{sha(style[1])}'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert data[0] == {"type": "application/json", "id": "trace"}
    assert script[0] == {}


def test_nothing_in_the_page_can_be_requested():
    text = page(samples.text(samples.network()))
    assert not re.search(r"https?://|//[a-z]+\.[a-z]|@import|url\(", text)
    for tag, attributes in Elements(text).found:
        assert "src" not in attributes
        assert attributes.get("href", "data:,") == "data:,", tag
        assert not any(name.startswith("on") for name in attributes)


def test_the_trace_is_embedded_as_it_is():
    written = samples.text(samples.network())
    assert Elements(page(written)).of("script")[0][1] == written


def test_hostile_text_stays_text():
    content = samples.network()
    content["program"]["title"] = HOSTILE
    content["layout"][0]["name"] = HOSTILE[:200]
    elements = Elements(page(json.dumps(content), title=HOSTILE))
    data, script = elements.of("script")
    assert json.loads(data[1]) == content
    assert sha(script[1]) in policy(elements)["script-src"]
    assert "<" not in data[1]


@pytest.mark.parametrize("text", ["", "{", HOSTILE, "\x00\r\n", "{{script}}"])
def test_any_text_makes_a_page(text):
    elements = Elements(page(text))
    assert [tag for tag, _ in elements.found].count("script") == 2


def test_modules_are_joined_without_their_imports():
    script = Elements(page("{}")).of("script")[1][1]
    assert not re.search(r"^\s*(import|export)\b", script, re.MULTILINE)
    assert "innerHTML" not in script
    assert "eval(" not in script


@pytest.mark.parametrize(
    ("modules", "reason"),
    [
        ({"main": 'import { a } from "./b.js";\n'}, r"no such file"),
        ({"main": 'import { a } from "./b.js";\n', "b": "const a = 1;\n"}, r"does not export"),
        (
            {"main": 'import { a as c } from "./b.js";\n', "b": "export const a = 1;\n"},
            r"plain names",
        ),
        ({"main": 'import a from "./b.js";\n', "b": ""}, r"form not understood, line 1"),
        ({"main": "export default 3;\n"}, r"form not understood"),
        ({"main": 'const x = import("./b.js");\n'}, r"form not understood"),
        ({"main": 'import { a } from "./main.js";\nexport const a = 1;\n'}, r"circle: main > main"),
        ({"main": 'const x = "</script>";\n'}, r"end or hide"),
    ],
)
def test_what_cannot_be_joined_is_an_error(modules, reason):
    with pytest.raises(BrokenApp, match=reason):
        bundle(modules, "main")


def test_a_page_is_written_whole_or_not_at_all(tmp_path):
    trace, out = tmp_path / "trace.json", tmp_path / "new" / "view.html"
    written = samples.text(samples.network())
    trace.write_text(written)
    write_page(trace, out, title="a run")
    assert out.read_text() == page(written, title="a run")
    trace.write_text(written[:-40])
    with pytest.raises(InvalidFile, match="truncated"):
        write_page(trace, out)
    assert out.read_text() == page(written, title="a run")
    assert [path.name for path in out.parent.iterdir()] == ["view.html"]
    with pytest.raises(InvalidFile, match="There is no trace"):
        write_page(tmp_path / "none.json", out)


def test_a_page_that_cannot_be_written_is_said_to_be(tmp_path):
    trace = tmp_path / "trace.json"
    trace.write_text(samples.text(samples.network()))
    with pytest.raises(InvalidFile, match="cannot be written"):
        write_page(trace, trace / "view.html")
