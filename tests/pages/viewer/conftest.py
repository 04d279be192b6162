"""Fixtures: a browser for the whole session, and a viewer opened on any trace file."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path

import pytest
from tests.pages.viewer import samples
from tests.pages.viewer.driver import Viewer
from tests.pages.viewer.webdriver import Browser, find_browser
from traced_programs import case

from icgd.pages.viewer import page


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    found = find_browser()
    if isinstance(found, str):
        if os.environ.get("ICGD_NEEDS_BROWSER"):
            pytest.fail(f"{found}, and make browser-test is there to use one")
        pytest.skip(found)
    running = Browser(*found, tmp_path_factory.mktemp("profile"))
    yield running
    running.close()


@pytest.fixture
def open_text(browser, tmp_path):
    """Text of a trace, good or bad -> the viewer on it, opened from a file."""

    def opened(text: str, *, link: str = "", size: tuple[int, int] = (1280, 800)) -> Viewer:
        out = tmp_path / "view.html"
        out.write_text(page(text), encoding="utf-8")
        return Viewer(browser, out.as_uri() + link, size)

    return opened


@pytest.fixture
def open_trace(open_text):
    """Path of a trace file -> the viewer on it. What tests of recorded programs need."""

    def opened(path: Path, **options) -> Viewer:
        text = path.read_text(encoding="utf-8")
        viewer = open_text(text, **options)
        viewer.trace = json.loads(text)
        return viewer

    return opened


RECORDED = ("network", "lasso", "loop", "newton", "tanh_stack", "linear_attention")


@pytest.fixture(params=["made_up", "made_up_replaced", *RECORDED])
def trace_path(request, tmp_path):
    """Made-up traces and recorded programs of every kind as files. Tests over it hold for any trace."""
    path = tmp_path / f"{request.param}.json"
    if request.param in RECORDED:
        recorded(request.param).save(path)
    else:
        kind = {"made_up": samples.network, "made_up_replaced": samples.replaced}[request.param]
        path.write_text(samples.text(kind()))
    return path


@functools.cache
def recorded(name):
    """A recording of a program, made once."""
    return case(name).record()
