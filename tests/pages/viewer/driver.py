"""The viewer as a test sees it: where it is, what is lit, what a cell reads."""

from __future__ import annotations

import json
import math
from typing import Any

from tests.pages.viewer.webdriver import Browser


class Viewer:
    """One opened page. `problems` must stay empty: console errors and requests of any kind."""

    trace: dict[str, Any]

    def __init__(self, browser: Browser, address: str, size: tuple[int, int]) -> None:
        self.browser, self.address = browser, address
        browser.open("about:blank")
        browser.log("browser"), browser.log("performance")
        browser.resize(*size)
        browser.open(address)
        browser.wait("document.body.dataset.ready")

    def problems(self) -> list[str]:
        """Errors in the console, and whatever was asked of the network besides the page itself."""
        found = [
            f"{entry['level']}: {entry['message']}"
            for entry in self.browser.log("browser")
            if entry["level"] in ("SEVERE", "WARNING")
        ]
        page = self.address.split("#")[0]
        for entry in self.browser.log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                url = message["params"]["request"]["url"]
                if url.split("#")[0] not in (page, "about:blank") and not url.startswith("data:"):
                    found.append(f"requested {url}")
        return found

    def run(self, script: str, *arguments: object):
        return self.browser.run(script, *arguments)

    def text(self, selector: str) -> str:
        return self.run("return document.querySelector(arguments[0])?.textContent", selector)

    @property
    def failure(self) -> str | None:
        return self.text("#failure")

    @property
    def position(self) -> int:
        return int(self.run("return document.body.dataset.position"))

    @property
    def lit(self) -> list[int]:
        return sorted(
            self.run(
                "return [...document.querySelectorAll('#strip [data-lit=\"1\"]')].map(e => +e.dataset.block)"
            )
        )

    @property
    def new(self) -> list[int]:
        return self.run(
            "return [...document.querySelectorAll('#strip [data-new=\"1\"]')].map(e => +e.dataset.block)"
        )

    @property
    def selected(self) -> int:
        return int(self.run("return document.querySelector('#block-panel').dataset.block"))

    def box(self, selector: str) -> dict[str, float]:
        return self.run(
            "const e = document.querySelector(arguments[0]); e.scrollIntoView({block: 'nearest'});"
            "return e.getBoundingClientRect().toJSON()",
            selector,
        )

    def click(self, selector: str) -> None:
        box = self.box(selector)
        self.browser.point(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, click=True)

    def hover(self, selector: str, across: float, down: float) -> dict[str, str]:
        """The readout over a place of an element, given as parts of its width and height."""
        box = self.box(selector)
        # Whole pixels within the element: a pointer has no others.
        x = min(
            max(math.ceil(box["left"]), box["x"] + across * box["width"]),
            math.floor(box["right"]) - 1,
        )
        y = min(
            max(math.ceil(box["top"]), box["y"] + down * box["height"]),
            math.floor(box["bottom"]) - 1,
        )
        self.browser.point(x, y)
        return self.readout()

    def readout(self) -> dict[str, str]:
        return self.run(
            "const t = document.querySelector('#tip');"
            "return t.hidden ? null : {title: t.querySelector('.tip-title').textContent, ...t.dataset}"
        )

    def press(self, *keys: str) -> None:
        self.browser.press(*keys)
