"""A small WebDriver client: what the viewer's tests need of a browser, with nothing to install."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-color-profile=srgb",
    "--force-device-scale-factor=1",
)
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {
    "ArrowLeft": "\ue012",
    "ArrowUp": "\ue013",
    "ArrowRight": "\ue014",
    "ArrowDown": "\ue015",
    "Home": "\ue011",
    "End": "\ue010",
    "PageUp": "\ue00e",
    "PageDown": "\ue00f",
    "Enter": "\ue007",
    "Escape": "\ue00c",
    "Tab": "\ue004",
    "Shift": "\ue008",
    "Space": " ",
}


def find_browser() -> tuple[str, str] | str:
    """Driver and browser, or why there are none."""
    driver = shutil.which("chromedriver")
    browser = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    if not driver or not browser:
        missing = " and ".join(
            name for name, path in (("chromedriver", driver), ("chromium", browser)) if not path
        )
        return f"no {missing} on this machine"
    return driver, browser


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Browser:
    """One headless browser; `close` ends what it started and nothing else."""

    def __init__(self, driver: str, browser: str, profile: Path) -> None:
        port = _free_port()
        self._base = f"http://127.0.0.1:{port}"
        # A proxy of the environment must not be asked for a server on this machine.
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
        hidden = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
        self._process = subprocess.Popen(
            [driver, f"--port={port}", "--log-level=OFF"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=hidden,
        )
        self._session = ""
        try:
            self._await_driver()
            self._start(browser, profile)
        except BaseException:
            self.close()
            raise

    def _await_driver(self) -> None:
        for _ in range(300):
            with contextlib.suppress(OSError):
                if self._call("GET", "/status")["ready"]:
                    return
            time.sleep(0.1)
        raise RuntimeError("chromedriver did not start")

    def _start(self, browser: str, profile: Path) -> None:
        options = {"binary": browser, "args": [*FLAGS, f"--user-data-dir={profile}"]}
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{made['sessionId']}"

    def _call(self, method: str, path: str, body: object = None):
        data = None if method == "GET" else json.dumps({} if body is None else body).encode()
        request = urllib.request.Request(self._base + path, data=data, method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with self._open(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()[:1000]) from None

    def call(self, method: str, path: str, body: object = None):
        return self._call(method, self._session + path, body)

    def open(self, address: str) -> None:
        self.call("POST", "/url", {"url": address})

    def run(self, script: str, *arguments: object):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def run_async(self, script: str, *arguments: object):
        """`script` calls its last argument with the answer."""
        return self.call("POST", "/execute/async", {"script": script, "args": list(arguments)})

    def wait(self, script: str, *arguments: object, seconds: float = 60.0):
        """Until the expression is true; the limit is there to end, not to measure."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := self.run(f"return ({script})", *arguments):
                return found
            time.sleep(0.03)
        raise AssertionError(f"never true: {script}")

    def resize(self, width: int, height: int) -> None:
        """The size of what a page sees, below what a window can be, too."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.cdp("Emulation.setDeviceMetricsOverride", size)

    def cdp(self, command: str, parameters: object):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def press(self, *keys: str) -> None:
        """Keys one after the other; "Shift+ArrowRight" holds the first."""
        actions = []
        for key in keys:
            names = key.split("+") if len(key) > 1 else [key]
            values = [KEYS.get(name, name) for name in names]
            actions += [{"type": "keyDown", "value": value} for value in values]
            actions += [{"type": "keyUp", "value": value} for value in reversed(values)]
        source = {"type": "key", "id": "keyboard", "actions": actions}
        self.call("POST", "/actions", {"actions": [source]})

    def point(self, x: float, y: float, *, click: bool = False) -> None:
        actions = [{"type": "pointerMove", "duration": 0, "x": round(x), "y": round(y)}]
        if click:
            actions += [
                {"type": "pointerDown", "button": 0},
                {"type": "pointerUp", "button": 0},
            ]
        source = {"type": "pointer", "id": "mouse", "actions": actions}
        self.call("POST", "/actions", {"actions": [source]})

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("GET", "/screenshot")))

    def log(self, kind: str) -> list[dict]:
        return self.call("POST", "/se/log", {"type": kind})

    def close(self) -> None:
        with contextlib.suppress(Exception):
            if self._session:
                self._call("DELETE", self._session)
        self._process.terminate()
        self._process.wait(timeout=30)
