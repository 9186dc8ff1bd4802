"""Chromium without a window, driven over its debugging pipe: no further program, no port."""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import time

CHROMIUM = shutil.which("chromium", path="/usr/bin:/usr/local/bin")
SECONDS = 60


class Browser:
    """One page. As a context: the process and its descriptors end with it.

    Args:
      folder: for its profile, which is its home too.
    """

    def __init__(self, folder, width=1280, height=900):
        assert CHROMIUM, "no chromium: tools/setup.sh installs it"
        self._log = open(f"{folder}/chromium.log", "w+b")  # noqa: SIM115  as long as the process
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()

        # It reads from 3 and writes to 4. Copies above both first: they may be these very numbers.
        def move():
            copies = [os.dup(os.dup(os.dup(each))) for each in (theirs_in, theirs_out)]
            for copy, number in zip(copies, (3, 4)):
                os.dup2(copy, number)

        self._process = subprocess.Popen(
            # Its own sandbox needs user namespaces, or root's set-uid helper: tests have neither.
            [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
            + ["--disable-dev-shm-usage", "--no-first-run", f"--user-data-dir={folder}/profile"]
            + [f"--window-size={width},{height}", "--hide-scrollbars", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env={**os.environ, "HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)},
            preexec_fn=move,
            close_fds=False,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._text = b""
        self._calls = 0
        self._page = None
        pages = self.call("Target.getTargets")["targetInfos"]
        [target] = [each["targetId"] for each in pages if each["type"] == "page"]
        self._page = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.errors = []
        self.call("Runtime.enable")
        # As if its window were in front: autofocus, and keys.
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        for number in (self._in, self._out):
            with contextlib.suppress(OSError):
                os.close(number)
        self._log.close()

    def call(self, method, **params):
        """The result of a call of the DevTools protocol."""
        self._calls += 1
        message = {"id": self._calls, "method": method, "params": params}
        if self._page:
            message["sessionId"] = self._page
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message(method)
            if answer.get("method") == "Runtime.exceptionThrown":
                self.errors.append(answer["params"]["exceptionDetails"])
            if answer.get("id") == self._calls:
                if "error" in answer:
                    raise LookupError(method, answer["error"])
                return answer["result"]

    def _message(self, method):
        while b"\0" not in self._text:
            ready, _, _ = select.select([self._in], [], [], SECONDS)
            piece = os.read(self._in, 1 << 20) if ready else b""
            assert piece, f"chromium does not answer {method}: {self._said()}"
            self._text += piece
        message, self._text = self._text.split(b"\0", 1)
        return json.loads(message)

    def _said(self):
        self._log.seek(0)
        return self._log.read().decode(errors="replace")[-2000:]

    def open(self, url):
        result = self.call("Page.navigate", url=url)
        assert "errorText" not in result, (url, result)

    def run(self, script):
        """What a script of the page gives."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in result:
            raise LookupError(script, result["exceptionDetails"])
        return result["result"].get("value")

    def wait(self, script):
        """Until a script gives something true, which it returns."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            # Between two pages there is nothing that could tell.
            with contextlib.suppress(LookupError):
                if result := self.run(script):
                    return result
            time.sleep(0.1)
        raise AssertionError(f"never true: {script}; {self.run('document.body.innerText')}")

    def type(self, text):
        """Into the field that has the focus."""
        self.call("Input.insertText", text=text)

    def press_enter(self):
        key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
        self.call("Input.dispatchKeyEvent", type="keyDown", **key)
        self.call("Input.dispatchKeyEvent", type="keyUp", **key)

    def text(self):
        return self.run("document.body.innerText")

    def picture(self, selector="html"):
        """A PNG of an element, however long."""
        where = self.run(
            f"(r => [r.x + scrollX, r.y + scrollY, r.width, r.height])"
            f"(document.querySelector({json.dumps(selector)}).getBoundingClientRect())"
        )
        clip = {**dict(zip(("x", "y", "width", "height"), where)), "scale": 1}
        shot = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(shot["data"])
