"""What the examples' models are trained with here: by chx in the tests, by PyTorch in torch_curves.py.

A case is the parameters at first and the minibatches, as NumPy arrays, and numbers of the optimizer.
RandomState draws them, whose numbers are those of all versions of NumPy.
"""

import os
import sys
import types

import numpy as np

EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "examples")
sys.path.insert(0, EXAMPLES)
import chx  # noqa: E402
import common  # noqa: E402
import gpt  # noqa: E402
import resnet  # noqa: E402
import vae  # noqa: E402


def _data(name):
    return os.path.join(EXAMPLES, "data", name)


def _images(count, steps, seed, held_out=0):
    """Indices (steps, count) of digits but the last ones, and all digits: images in [0, 1] and labels."""
    images, labels = (common.load_idx(_data(f"mnist-{kind}.gz")) for kind in ("images", "labels"))
    chosen = np.random.RandomState(seed).randint(0, len(labels) - held_out, (steps, count))
    return chosen, common.scaled(images), labels.astype(np.int32)


def gpt_case(steps=60):
    """A text that stays as it is: rows of letters and commas."""
    with open(_data("mushrooms.csv"), "rb") as file:
        text = np.frombuffer(file.read(), np.uint8)
    config = gpt.Config(context=32, width=64, heads=4, layers=2)
    return types.SimpleNamespace(
        config=config,
        initial=gpt.initial(config, 1),
        batches=list(gpt.minibatches(text, config.context, 8, steps, 2)),
        rate=chx.schedules.warm_up(10, chx.schedules.cosine(3e-3, steps - 10)),
        decay=0.1,
        max_norm=1.0,
    )


def resnet_case(steps=200):
    """So many steps that it reads most digits that it has not seen."""
    chosen, images, labels = _images(32, steps, 2, resnet.HELD_OUT)
    widths = (8, 16, 32)
    initial, stats = resnet.initial(widths, 1)
    return types.SimpleNamespace(
        widths=widths,
        initial=initial,
        stats=stats,
        batches=[(images[rows][:, None], labels[rows]) for rows in chosen],
        held_out=(images[-resnet.HELD_OUT :, None], labels[-resnet.HELD_OUT :]),
        rate=chx.schedules.one_cycle(0.1, steps),
        decay=1e-4,
    )


def vae_case(steps=60):
    chosen, images, _ = _images(32, steps, 2)
    random = np.random.RandomState(3)
    noise = random.standard_normal((steps, 32, 8)).astype(np.float32)
    return types.SimpleNamespace(
        initial=vae.initial(64, 8, 1),
        batches=[(images[rows].reshape(-1, 784), noise[i]) for i, rows in enumerate(chosen)],
    )
