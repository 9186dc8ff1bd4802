"""What the examples share: their options, and seeds."""

import argparse

import chainer
import numpy as np


def parser(description, **defaults):
    """A parser of --device, --out, --seed and of one option for each default given."""
    result = argparse.ArgumentParser(description=description)
    result.add_argument("--device", default="native:0", help="such as native:0, cuda:0 or @numpy")
    result.add_argument("--out", default="result", help="folder for what it writes")
    result.add_argument("--seed", type=int, default=0)
    for name, value in defaults.items():
        result.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    return result


def begin(options):
    """Seeds NumPy, and makes the device asked for the current one, which it returns."""
    np.random.seed(options.seed)
    device = chainer.get_device(options.device)
    device.use()
    return device
