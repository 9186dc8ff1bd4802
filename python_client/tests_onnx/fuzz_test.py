"""fuzz.py for some seconds: in a process of its own, which may die of what it finds."""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SECONDS = os.environ.get("CHX_ONNX_FUZZ_SECONDS", "15")


def test_changed_models_are_refused_or_work():
    """CHX_TEST_SEED repeats a run."""
    seed = os.environ.get("CHX_TEST_SEED")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "fuzz.py", SECONDS, *([seed] if seed else [])],
        cwd=HERE,
        env={**os.environ, "CHX_CHXD": os.path.abspath(os.environ["CHX_CHXD"])},
        capture_output=True,
        text=True,
        timeout=float(SECONDS) + 100,
        check=False,
    )
    print(done.stdout, done.stderr)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    seen = done.stdout.splitlines()[1]
    assert "'works'" in seen and "'ValueError'" in seen and "'TypeError'" in seen
    assert int(seen.split()[0]) > 100
