"""Draws docs/images/curves.png: losses of the examples' models by chx, beside torch_curves.json.

    PYTHONPATH=FOLDER_WITH_CHX python draw_curves.py ../../docs/images/curves.png

Needs matplotlib and a daemon, as models_test.py does, which compares the same curves.
"""

import sys

import chx
import matplotlib
import models_test

matplotlib.use("Agg")
from matplotlib import pyplot as plt

TITLES = {"gpt": "GPT, mushrooms.csv", "resnet": "ResNet, MNIST", "vae": "VAE, MNIST"}


def main(path):
    figure, axes = plt.subplots(1, 3, figsize=(9.5, 2.8), layout="constrained")
    version = models_test.CURVES["torch"].split("+")[0]
    for ax, (name, train) in zip(axes, models_test.MODELS.items()):
        torch_losses = models_test.CURVES[name]["float32"]["losses"]
        ax.plot(
            torch_losses, color="tab:orange", linewidth=4, alpha=0.5, label=f"PyTorch {version}"
        )
        losses = train("float32", True)["losses"]
        ax.plot(losses, color="tab:blue", linewidth=1, label="chx")
        ax.set(title=TITLES[name], xlabel="step", ylabel="loss" if name == "gpt" else None)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False)
    figure.savefig(path, dpi=100, metadata={"Software": None})


if __name__ == "__main__":
    with chx.connect():
        main(sys.argv[1])
