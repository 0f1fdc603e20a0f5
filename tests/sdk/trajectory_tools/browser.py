"""A real, headless Chromium, driven over two pipes: no socket and no further package.

Source: chromedevtools.github.io/devtools-protocol; ``--remote-debugging-pipe`` reads commands
from descriptor 3 and writes to descriptor 4, each message ended by a NUL.
"""

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)
_LIMIT_S = 120


class Browser:
    """One tab; it keeps what a page asked for, complained about and tried to pop up."""

    def __init__(self, folder: Path) -> None:
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._count = 0
        self._buffer = b""
        their_in, self._to = os.pipe()
        self._from, their_out = os.pipe()
        # Moved out of the way first: one of the pipes may itself be descriptor 3 or 4.
        script = f'exec 3<&{their_in} 4>&{their_out}; exec "$@"'
        assert CHROMIUM is not None
        self._process = subprocess.Popen(
            ["bash", "-c", script, "chromium", CHROMIUM, *_FLAGS, f"--user-data-dir={folder}"],
            pass_fds=(their_in, their_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(their_in)
        os.close(their_out)
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """Send a command and wait for its result."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        number = self._count
        while True:
            received = self._receive()
            if received.get("id") == number:
                assert "error" not in received, received
                return received["result"]
            self._note(received)

    def open(self, path: Path, fragment: str = "") -> None:
        """Load a page and wait until it has shown its data."""
        self.call("Page.navigate", url="about:blank")
        self.requests.clear()
        self.call("Page.navigate", url=f"{path.as_uri()}{fragment}")
        self.wait("document.body && document.body.dataset.ready === 'true'")

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page."""
        found = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, expression: str) -> None:
        """Until an expression holds in the page."""
        end = time.monotonic() + _LIMIT_S
        while not self.evaluate(f"Boolean({expression})"):
            assert time.monotonic() < end, f"never came true: {expression}"
            time.sleep(0.02)

    def text(self, selector: str) -> str:
        """What a person reads in an element."""
        text = self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")
        return str(text)

    def resize(self, width: int, height: int) -> None:
        """Another window, as wide as so many pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def screenshot(self, path: Path) -> None:
        """Keep what the window shows."""
        found = self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(found["data"]))

    def close(self) -> None:
        """End the browser and all its processes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], _LIMIT_S)
            chunk = os.read(self._from, 2**20) if ready else b""
            assert chunk, "Chromium says nothing"
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def _note(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        match event.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
            case "Log.entryAdded":
                self.complaints.append(parameters["entry"]["text"])
            case "Runtime.exceptionThrown":
                self.complaints.append(str(parameters["exceptionDetails"]))
            case "Page.javascriptDialogOpening":
                self.complaints.append(f"dialog: {parameters['message']}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextlib.contextmanager
def open_browser(folder: Path) -> Iterator[Browser]:
    """A browser with an empty profile."""
    with Browser(folder) as browser:
        yield browser
