"""Headless Chromium over two pipes, with the actions and observations of tests."""

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
"""Script that starts Chromium with file 3 for commands and file 4 for messages."""

SECONDS = 30


def chromium_path() -> str | None:
    """Return the path of Chromium on this machine, or None."""
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


class Browser:
    """Chromium process with its own profile."""

    def __init__(self, folder: Path) -> None:
        to_read, self._out = os.pipe()
        self._in, to_write = os.pipe()
        command = [
            *(
                sys.executable,
                "-S",
                "-c",
                _START,
                str(to_read),
                str(to_write),
                chromium_path() or "",
            ),
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
        """Send a command, and return the answer of the browser."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return dict(answer["result"])
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        """Return the next message of the browser."""
        while not self._heard:
            bytes_read = os.read(self._in, 1 << 20)
            if not bytes_read:
                raise RuntimeError("Chromium has ended")
            *messages, self._rest = (self._rest + bytes_read).split(b"\0")
            self._heard.extend(json.loads(text) for text in messages)
        return self._heard.popleft()

    def close(self) -> None:
        """Close the browser."""
        self.call("Browser.close")
        self._process.wait(10)
        os.close(self._out)
        os.close(self._in)


class Tab:
    """Page of a browser."""

    def __init__(
        self,
        browser: Browser,
        address: str,
        width: int = 1400,
        height: int = 900,
        media: Mapping[str, str] | None = None,
    ) -> None:
        self.browser = browser
        created = browser.call("Target.createTarget", url="about:blank")
        self.target = created["targetId"]
        answer = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)
        self.session = answer["sessionId"]
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
        """Send a command to this page, and return the answer."""
        return self.browser.call(method, self.session, **parameters)

    def media(self, **features: str) -> None:
        """Emulate preferences of a reader: `prefers_color_scheme="dark"`, or `media="print"` for paper."""
        medium = features.pop("media", "")
        feature_list = [
            {"name": name.replace("_", "-"), "value": v} for name, v in features.items()
        ]
        self.call("Emulation.setEmulatedMedia", media=medium, features=feature_list)

    def go(self, address: str) -> None:
        """Open an address, and wait until the page is laid out."""
        self.call("Page.navigate", url=address)
        self.wait("document.body && document.body.dataset.ready")

    def js(self, expression: str) -> Any:
        """Return the value of a JavaScript expression, awaited if it is a promise."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description", answer))
        return answer["result"].get("value")

    def wait(self, expression: str) -> Any:
        """Return the value of an expression once it is true."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            value = self.js(expression)
            if value:
                return value
            time.sleep(0.02)
        raise TimeoutError(f"after {SECONDS} s still not: {expression}")

    def in_frame(self, expression: str) -> Any:
        """Return the value of an expression in the only frame of the page, once the frame is laid out.

        The frame may be a separate process.
        """
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            for session in self._frame_sessions():
                answer = self.browser.call(
                    "Runtime.evaluate",
                    session,
                    expression=f"document.body?.dataset.ready === 'yes' ? {expression} : null",
                    returnByValue=True,
                )
                if answer["result"].get("value") is not None:
                    return answer["result"]["value"]
            time.sleep(0.1)
        raise TimeoutError(f"after {SECONDS} s no frame is laid out")

    def _frame_sessions(self) -> list[str]:
        """Return the sessions of all frames."""
        targets = self.browser.call("Target.getTargets", filter=[{"type": "iframe"}])["targetInfos"]
        return [
            self.browser.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)[
                "sessionId"
            ]
            for target in targets
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

    def pointer(self, kind: str, x: float, y: float, **options: Any) -> None:
        """Send `mouseMoved`, `mousePressed`, `mouseReleased` or `mouseWheel` at a position."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **options)

    def click(self, x: float, y: float) -> None:
        """Click at a position."""
        self.pointer("mouseMoved", x, y)
        self.pointer("mousePressed", x, y, button="left", clickCount=1)
        self.pointer("mouseReleased", x, y, button="left", clickCount=1)
        time.sleep(0.03)
        self.settled()

    def picture(self) -> bytes:
        """Return a screenshot as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def paper(self) -> bytes:
        """Return the printed page as PDF."""
        return base64.b64decode(self.call("Page.printToPDF", landscape=True)["data"])

    def requests(self) -> list[str]:
        """Return the addresses that the page requested."""
        return [
            event["params"]["request"]["url"] for event in self._events("Network.requestWillBeSent")
        ]

    def complaints(self) -> list[str]:
        """Return errors, and violations of the content security policy."""
        exceptions = [
            e["params"]["exceptionDetails"]["text"] for e in self._events("Runtime.exceptionThrown")
        ]
        return exceptions + [e["params"]["entry"]["text"] for e in self._events("Log.entryAdded")]

    def _events(self, method: str) -> list[dict[str, Any]]:
        """Return the events of this page for a method."""
        return [
            event
            for event in self.browser.events
            if event.get("method") == method and event.get("sessionId") == self.session
        ]

    def close(self) -> None:
        """Close the page."""
        self.browser.call("Target.closeTarget", targetId=self.target)
