"""Draws docs/images/curves.png: losses of the examples' models by chx, beside torch_curves.json.

    PYTHONPATH=FOLDER_WITH_CHX python draw_curves.py ../../docs/images/curves.png

Needs matplotlib and a daemon, as models_test.py does, which compares the same curves.
"""

import sys

import cases
import chx
import matplotlib
import models_test

matplotlib.use("Agg")
from matplotlib import pyplot as plt

TITLES = {"gpt": "GPT, mushrooms.csv", "resnet": "ResNet, MNIST", "vae": "VAE, MNIST"}
STEPS = {
    name: len(case().batches)
    for name, case in (
        ("gpt", cases.gpt_case),
        ("resnet", cases.resnet_case),
        ("vae", cases.vae_case),
    )
}


def main(path):
    figure, axes = plt.subplots(1, 3, figsize=(9.5, 2.8), layout="constrained")
    version = models_test.CURVES["torch"].split("+")[0]
    for ax, (name, train) in zip(axes, models_test.MODELS.items()):
        steps = STEPS[name]  # what follows are scores
        torch_losses = models_test.CURVES[name]["float32"][:steps]
        ax.plot(
            torch_losses, color="tab:orange", linewidth=4, alpha=0.5, label=f"PyTorch {version}"
        )
        ax.plot(train("float32", True)[:steps], color="tab:blue", linewidth=1, label="chx")
        ax.set(title=TITLES[name], xlabel="step", ylabel="loss" if name == "gpt" else None)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False)
    figure.savefig(path, dpi=100, metadata={"Software": None})


if __name__ == "__main__":
    with chx.connect():
        main(sys.argv[1])
