"""A headless Chromium that tests drive: DevTools protocol over a pipe, no package needed.

The browser reads commands from its file descriptor 3 and writes answers to 4, each a JSON object
with a zero byte behind it (`--remote-debugging-pipe`).
"""

import base64
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

# Debian's name, others', and that of Chrome.
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_SECONDS = 60
_KEY_CODES = {"Enter": 13, "Home": 36, "End": 35, "Tab": 9}
_KEY_CODES |= {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}


def find_chromium() -> str:
    """Returns the path of the browser; the environment variable CHROMIUM names another one."""
    named = os.environ.get("CHROMIUM")
    found = named or next(filter(None, map(shutil.which, _NAMES)), None)
    assert found, (
        "there is no Chromium for this test: install it (Debian: apt-get install chromium), or "
        "give the path of a Chrome in the environment variable CHROMIUM"
    )
    return found


class Browser:
    """One browser process with one page."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        (commands, self._write), (self._read, answers) = os.pipe(), os.pipe()
        # Of its own: the numbers 3 and 4 may be taken in this process.
        start = f'exec "$0" "$@" 3<&{commands} 4>&{answers}'
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        flags += ["--no-first-run", "--remote-debugging-pipe", "--hide-scrollbars"]
        flags += [f"--user-data-dir={self._folder.name}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", start, find_chromium(), *flags],
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._numbers, self._buffer = itertools.count(1), b""
        self._session: str | None = None
        self.errors: list[str] = []
        self.requests: list[str] = []
        pages = self._call("Target.getTargets")["targetInfos"]
        target = next(page["targetId"] for page in pages if page["type"] == "page")
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def close(self) -> None:
        self._session = None
        self._call("Browser.close")
        self._process.wait(_SECONDS)
        os.close(self._write)
        os.close(self._read)
        self._folder.cleanup()

    def open(self, path: Path, width: int = 1280, dark: bool = False, height: int = 900) -> None:
        """Opens a page at a width and in a colour scheme, and waits until it has drawn."""
        self.errors, self.requests = [], []
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self._call("Page.navigate", url=path.as_uri())
        end = time.monotonic() + _SECONDS
        while self.run("document.documentElement?.dataset.ready") != "true":
            assert time.monotonic() < end, f"the page did not get ready: {self.errors}"
            time.sleep(0.05)

    def run(self, script: str) -> Any:
        """Returns what an expression of JavaScript is in the page."""
        answer = self._call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, *keys: str) -> None:
        """Presses keys one after the other, such as "j" or "ArrowDown"."""
        for key in keys:
            event = {"key": key, "windowsVirtualKeyCode": _KEY_CODES.get(key, 0)}
            text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
            self._call("Input.dispatchKeyEvent", type="keyDown", text=text, **event)
            self._call("Input.dispatchKeyEvent", type="keyUp", **event)

    def move_to(self, selector: str) -> None:
        """Moves the mouse to the middle of an element."""
        self._mouse("mouseMoved", selector)

    def click(self, selector: str) -> None:
        """Clicks into the middle of an element."""
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self._mouse(kind, selector)

    def _mouse(self, kind: str, selector: str) -> None:
        box = self.run(
            f"""(() => {{
                const element = document.querySelector({json.dumps(selector)});
                element.scrollIntoView({{block: "nearest"}});
                const box = element.getBoundingClientRect();
                return [box.x + box.width / 2, box.y + box.height / 2];
            }})()"""
        )
        pressed = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
        self._call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], **pressed)

    def screenshot(self, path: Path, whole: bool = True) -> None:
        """Writes what the page looks like as a PNG; all of it, also what would be scrolled to."""
        data = self._call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        command = {"id": number, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._write, json.dumps(command).encode() + b"\0")
        while (message := self._message()).get("id") != number:
            self._note(message)
        assert "error" not in message, f"{method}: {message.get('error')}"
        return message["result"]

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            part = os.read(self._read, 1 << 16)
            assert part, f"Chromium ended with status {self._process.wait(_SECONDS)}"
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        if event["method"] == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(parameters["exceptionDetails"]))
        elif event["method"] == "Runtime.consoleAPICalled" and parameters["type"] == "error":
            self.errors.append(json.dumps(parameters["args"]))
        elif event["method"] == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(json.dumps(parameters["entry"]))
        elif event["method"] == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])


if __name__ == "__main__":  # asked by `make chromium`
    print(find_chromium())
