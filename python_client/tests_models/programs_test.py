"""The examples as programs: that they learn, and what they leave."""

import os
import subprocess
import sys

import cases
import chx
import pytest


def run(example, *arguments):
    done = subprocess.run(
        [sys.executable, os.path.join(cases.EXAMPLES, example), *map(str, arguments)],
        capture_output=True,
        timeout=250,
        check=False,
    )
    output = done.stdout.decode(errors="replace")
    assert done.returncode == 0, output + done.stderr.decode()
    return output


@pytest.mark.parametrize("jit", [[], ["--jit"]])
def test_gpt(tmp_path, jit):
    """On this repository's documentation. A model of single bytes has a loss of 3.4."""
    model = tmp_path / "gpt.safetensors"
    output = run("gpt.py", "--steps", 200, "--max-loss", 2.8, "--write", 20, "--save", model, *jit)
    assert "A session " in output
    with chx.connect():
        params = chx.safetensors.load_file(model)
    assert params["blocks.1.attention.weight"].shape == (384, 128)
    assert params["head.bias"].dtype == "float32"


def test_resnet(tmp_path):
    """On the real digits."""
    model = tmp_path / "resnet.safetensors"
    run("resnet.py", "--epochs", 3, "--min-accuracy", 0.9, "--jit", "--save", model)
    with chx.connect():
        arrays = chx.safetensors.load_file(model)
        assert arrays["blocks.2.shortcut.weight"].shape == (64, 32, 1, 1)
        assert arrays["first.norm.running_mean"].tolist() != [0] * 16


def test_vae(tmp_path):
    image = tmp_path / "digits.png"
    run("vae.py", "--epochs", 3, "--max-loss", 160, "--jit", "--out", image)
    assert image.read_bytes().startswith(b"\x89PNG")
