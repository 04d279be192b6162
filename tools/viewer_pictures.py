"""Draw docs/figures/viewer.png (and viewer_dark.png): the viewer on a real run, by a headless browser.

Needs chromium and chromedriver (tools/get_browser.sh).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import icgd
from icgd.cli.run.network import load_table
from icgd.pages.viewer import write_page

ROOT = Path(__file__).resolve().parent.parent
FIGURES = ROOT / "docs" / "figures"
WINDOW = (1280, 800)
PLACE = "#round=3&step=5"
"""A backward step: the gate of the ReLU, both banks of heads, and weights that change."""


def recorded(path: Path) -> None:
    """A small network on the diabetes data, two passes."""
    table = load_table(None, "diabetes", (), standardize=True)
    net = icgd.Network((table.X.shape[1], 16, 16, 1))
    program = icgd.compile(net, icgd.SGD(lr=0.01))
    icgd.record_trace(program, table.X, table.Y, init=net.init(seed=0), epochs=2, budget_mb=4).save(
        path
    )


def draw() -> None:
    """Both themes."""
    sys.path.insert(0, str(ROOT / "tests" / "pages"))
    from viewer.webdriver import Browser, find_browser  # type: ignore[import-not-found]

    found = find_browser()
    if isinstance(found, str):
        raise SystemExit(f"{found}; see tools/get_browser.sh")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "view.html"
        recorded(Path(folder) / "trace.json")
        write_page(Path(folder) / "trace.json", page)
        browser = Browser(*found, Path(folder) / "profile")
        try:
            browser.resize(*WINDOW)
            for theme, name in (("light", "viewer.png"), ("dark", "viewer_dark.png")):
                feature = [{"name": "prefers-color-scheme", "value": theme}]
                browser.cdp("Emulation.setEmulatedMedia", {"features": feature})
                browser.open("about:blank")
                browser.open(page.as_uri() + PLACE)
                browser.wait("document.body.dataset.ready")
                browser.screenshot(FIGURES / name)
                print(FIGURES.name, name)
        finally:
            browser.close()


if __name__ == "__main__":
    draw()
