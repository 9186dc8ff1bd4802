"""Other processes with sessions, for tests of what they share."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import chx
import pytest


class Process:
    """Another Python process with a session; runs a program line by line of its standard input."""

    def __init__(self, address, program):
        body = f"""
            import sys
            import chx, numpy as np
            session = chx.connect({address!r})
            def say(*what): print(*what, flush=True)
            def hear(): return sys.stdin.readline().strip()
        """
        text = textwrap.dedent(body) + textwrap.dedent(program)
        self.process = subprocess.Popen(
            [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def hear(self):
        line = self.process.stdout.readline()
        assert line, "the process has ended"
        return line.strip()

    def say(self, text=""):
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()

    def kill(self):
        self.process.kill()
        self.process.wait()


def error_of(read):
    with pytest.raises(chx.ContextError) as raised:
        read()
    return str(raised.value)
