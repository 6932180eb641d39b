"""Chromium without a window, driven by its DevTools protocol."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import websocket

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")

#: Names and codes of the keys that tests press.
_KEYS = {"Enter": 13, "ArrowRight": 39, "ArrowLeft": 37, "Escape": 27}

#: Modifiers of a key, as the protocol numbers them.
CONTROL, SHIFT = 2, 8


class Page:
    """A page of the browser; `errors` has what its console reported as such."""

    def __init__(self, address: str) -> None:
        self.errors: list[str] = []
        self._socket = websocket.create_connection(address, timeout=120)
        self._number = 0
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and return its result; events that arrive before it are read."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._socket.recv())
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return dict(answer["result"])
            self._read_event(answer)

    def close(self) -> None:
        """Close the connection; a test that runs later would report the open socket."""
        self._socket.close()

    def _read_event(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        if event["method"] == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif event["method"] == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif event["method"] == "Runtime.consoleAPICalled" and params["type"] == "error":
            words = [str(one.get("value", one.get("description"))) for one in params["args"]]
            self.errors.append(" ".join(words))

    def open(self, url: str, width: int = 1280, height: int = 900) -> None:
        """Open an address in a window of a size in pixels, and wait until it has loaded."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.evaluate("window.isOld = true")  # the page before may still answer for a moment
        self.call("Page.navigate", url=url)
        self.wait_for("!window.isOld && document.readyState === 'complete'")

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript; a promise is awaited."""
        options = {"returnByValue": True, "awaitPromise": True}
        result = self.call("Runtime.evaluate", expression=expression, **options)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait_for(self, expression: str, timeout_s: float = 60.0) -> float:
        """Wait until an expression is true; return the seconds that it took."""
        start_s = time.monotonic()
        while time.monotonic() - start_s < timeout_s:
            if self.evaluate(f"Boolean({expression})"):
                return time.monotonic() - start_s
            time.sleep(0.02)
        raise AssertionError(f"not true after {timeout_s:g} s: {expression}")

    def press(self, key: str, modifiers: int = 0) -> None:
        """Send a key to the page, down and up."""
        code = _KEYS.get(key, ord(key[0].upper()))
        values = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **values, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **values)

    def click(self, selector: str) -> None:
        """Send a mouse click to the middle of the first element that a selector finds."""
        quoted = json.dumps(selector)
        self.wait_for(f"document.querySelector({quoted})")
        x, y = self.evaluate(
            f"(() => {{ const element = document.querySelector({quoted});"
            "element.scrollIntoView({block: 'center'});"
            "const box = element.getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        place = {"x": x, "y": y, "button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type="mousePressed", **place)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", **place)

    def screenshot(self, path: Path) -> None:
        """Write what the window shows to a PNG file."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))


@contextmanager
def open_browser(profile: Path) -> Iterator[Page]:
    """Start the browser with a new profile, and end it at the end."""
    words = [str(BROWSER), "--headless=new", "--no-sandbox", "--disable-gpu"]
    words += ["--disable-background-networking", "--remote-debugging-port=0"]
    words += ["--remote-allow-origins=*", f"--user-data-dir={profile}", "about:blank"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        page = Page(_address_of_page(profile))
        try:
            yield page
        finally:
            page.close()
    finally:
        process.terminate()
        process.wait(30)


def _address_of_page(profile: Path, timeout_s: float = 60.0) -> str:
    """Wait until the browser has written its port; return the address of its first page."""
    port_file = profile / "DevToolsActivePort"
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        if port_file.exists() and (lines := port_file.read_text().splitlines()):
            with urllib.request.urlopen(f"http://127.0.0.1:{lines[0]}/json/list") as response:
                pages = [one for one in json.load(response) if one["type"] == "page"]
            if pages:
                return str(pages[0]["webSocketDebuggerUrl"])
        time.sleep(0.1)
    raise AssertionError(f"no page of the browser after {timeout_s:g} s")
