"""A headless Chromium, spoken to over two pipes: what a test does in a page, and what it sees there."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *(
        "--disable-extensions",
        "--force-color-profile=srgb",
        "--mute-audio",
        "--disable-dev-shm-usage",
    ),
)
_START = """
import os, sys
ends = [os.dup(int(end)) for end in sys.argv[1:3]]
for place, end in zip((3, 4), [os.dup(end) for end in ends]):
    os.dup2(end, place)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Chromium reads its commands from file 3 and writes to file 4."""

SECONDS = 30


def program() -> str | None:
    """The Chromium of this machine, if it has one."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class Browser:
    """A Chromium with a profile of its own."""

    def __init__(self, folder: Path) -> None:
        to_read, self._out = os.pipe()
        self._in, to_write = os.pipe()
        command = [
            *(sys.executable, "-S", "-c", _START, str(to_read), str(to_write), program() or ""),
            *_OPTIONS,
            *("--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank"),
        ]
        self._process = subprocess.Popen(
            command,
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._numbers = itertools.count(1)
        self._rest = b""
        self._heard: deque[dict[str, Any]] = deque()
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        """What the browser answers."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            said = self._next()
            if said.get("id") == number:
                if "error" in said:
                    raise RuntimeError(f"{method}: {said['error']['message']}")
                return dict(said["result"])
            self.events.append(said)

    def _next(self) -> dict[str, Any]:
        while not self._heard:
            more = os.read(self._in, 1 << 20)
            if not more:
                raise RuntimeError("Chromium has ended")
            *whole, self._rest = (self._rest + more).split(b"\0")
            self._heard.extend(json.loads(text) for text in whole)
        return self._heard.popleft()

    def close(self) -> None:
        """End it."""
        self.call("Browser.close")
        self._process.wait(10)
        os.close(self._out)
        os.close(self._in)


class Tab:
    """One page of a browser."""

    def __init__(
        self,
        browser: Browser,
        address: str,
        width: int = 1400,
        height: int = 900,
        media: Mapping[str, str] | None = None,
    ) -> None:
        self.browser = browser
        made = browser.call("Target.createTarget", url="about:blank")
        self.target = made["targetId"]
        attached = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.media(**(media or {}))
        self.go(address)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command to this page."""
        return self.browser.call(method, self.session, **parameters)

    def media(self, **features: str) -> None:
        """Emulate what a reader prefers: `prefers_color_scheme="dark"`; `media="print"` for paper."""
        medium = features.pop("media", "")
        said = [{"name": name.replace("_", "-"), "value": v} for name, v in features.items()]
        self.call("Emulation.setEmulatedMedia", media=medium, features=said)

    def go(self, address: str) -> None:
        """Open an address and wait until the page is laid out."""
        self.call("Page.navigate", url=address)
        self.wait("document.body && document.body.dataset.ready")

    def js(self, expression: str) -> Any:
        """The value of an expression of JavaScript, awaited if it is a promise."""
        said = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in said:
            raise RuntimeError(said["exceptionDetails"]["exception"].get("description", said))
        return said["result"].get("value")

    def wait(self, expression: str) -> Any:
        """The expression's value once that is true."""
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            found = self.js(expression)
            if found:
                return found
            time.sleep(0.02)
        raise TimeoutError(f"after {SECONDS} s still not: {expression}")

    def in_frame(self, expression: str) -> Any:
        """The value of an expression in the only frame inside of the page, once that is laid out.

        Such a frame may be a process of its own.
        """
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            for number in self._inner():
                said = self.browser.call(
                    "Runtime.evaluate",
                    number,
                    expression=f"document.body?.dataset.ready === 'yes' ? {expression} : null",
                    returnByValue=True,
                )
                if said["result"].get("value") is not None:
                    return said["result"]["value"]
            time.sleep(0.1)
        raise TimeoutError(f"after {SECONDS} s no frame is laid out")

    def _inner(self) -> list[str]:
        found = self.browser.call("Target.getTargets", filter=[{"type": "iframe"}])["targetInfos"]
        return [
            self.browser.call("Target.attachToTarget", targetId=one["targetId"], flatten=True)[
                "sessionId"
            ]
            for one in found
        ]

    def settled(self) -> None:
        """Wait until the last layout is painted."""
        self.wait("document.body.dataset.ready === 'yes'")

    def key(self, key: str) -> None:
        """Press a key."""
        text = key if len(key) == 1 else {"Enter": "\r"}.get(key, "")
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settled()

    def type(self, text: str) -> None:
        """Type letters where the focus is."""
        self.call("Input.insertText", text=text)

    def pointer(self, kind: str, x: float, y: float, **more: Any) -> None:
        """`mouseMoved`, `mousePressed`, `mouseReleased` or `mouseWheel` at a place."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x: float, y: float) -> None:
        """Click at a place."""
        self.pointer("mouseMoved", x, y)
        self.pointer("mousePressed", x, y, button="left", clickCount=1)
        self.pointer("mouseReleased", x, y, button="left", clickCount=1)
        time.sleep(0.03)
        self.settled()

    def picture(self) -> bytes:
        """What is seen, as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def paper(self) -> bytes:
        """What is printed, as PDF."""
        return base64.b64decode(self.call("Page.printToPDF", landscape=True)["data"])

    def requests(self) -> list[str]:
        """The addresses that the page has asked for."""
        return [
            event["params"]["request"]["url"] for event in self._events("Network.requestWillBeSent")
        ]

    def complaints(self) -> list[str]:
        """Errors, and what the policy has forbidden."""
        thrown = [
            e["params"]["exceptionDetails"]["text"] for e in self._events("Runtime.exceptionThrown")
        ]
        return thrown + [e["params"]["entry"]["text"] for e in self._events("Log.entryAdded")]

    def _events(self, method: str) -> list[dict[str, Any]]:
        return [
            event
            for event in self.browser.events
            if event.get("method") == method and event.get("sessionId") == self.session
        ]

    def close(self) -> None:
        """Close it."""
        self.browser.call("Target.closeTarget", targetId=self.target)
