"""The losses of PyTorch for cases.py, which models_test.py compares with those of chx.

    PYTHONPATH=FOLDER_WITH_CHX python torch_curves.py

Writes torch_curves.json, and the state_dict of the residual network once it is trained. Needs torch and
safetensors. Each curve is there in float64, and in float32: how far they are from each other shows
what rounding does to such a curve. So it is with the residual network's scores and accuracy.
"""

import json
import os

import cases
import numpy as np
import safetensors.torch
import torch
import torch.nn.functional as F
import torch_models

HERE = os.path.dirname(os.path.abspath(__file__))
BETAS, EPS = (0.9, 0.95), 1e-8


def load(module, values, dtype):
    """The module of the example's parameters."""
    module.to(dtype)
    state = {name: torch.from_numpy(value).to(dtype) for name, value in values.items()}
    missing, unexpected = module.load_state_dict(state, strict=False)
    assert not unexpected and all(name.endswith("num_batches_tracked") for name in missing)
    return module


def train(model, optimizer, batches, loss_of, before_step):
    losses = []
    for number, batch in enumerate(batches):
        optimizer.zero_grad()
        loss = loss_of(model, *batch)
        loss.backward()
        before_step(number)
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses}


def gpt_curve(dtype):
    case = cases.gpt_case()
    model = load(torch_models.GPT(case.config), case.initial, dtype)
    optimizer = torch.optim.AdamW(model.parameters(), betas=BETAS, weight_decay=case.decay)

    def before_step(number):
        group = optimizer.param_groups[0]
        group["lr"] = case.rate(number)
        # Where Kingma and Ba add eps, Chainer and chx do, PyTorch adds it elsewhere.
        group["eps"] = EPS / (1 - BETAS[1] ** (number + 1)) ** 0.5
        norm = torch.sqrt(sum((p.grad**2).sum() for p in model.parameters()))
        if norm > case.max_norm:
            for p in model.parameters():
                p.grad *= case.max_norm / norm

    def loss_of(model, ids, targets):
        scores = model(torch.from_numpy(ids).long())
        return F.cross_entropy(scores.flatten(0, 1), torch.from_numpy(targets).long().flatten())

    return train(model, optimizer, case.batches, loss_of, before_step)


def resnet_curve(dtype):
    case = cases.resnet_case()
    model = load(torch_models.ResNet(case.widths), case.initial | case.stats, dtype)
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9, weight_decay=case.decay)

    def before_step(number):
        optimizer.param_groups[0]["lr"] = case.rate(number)

    def loss_of(model, x, t):
        return F.cross_entropy(model(torch.from_numpy(x).to(dtype)), torch.from_numpy(t).long())

    curve = train(model, optimizer, case.batches, loss_of, before_step)
    model.eval()
    images, labels = (torch.from_numpy(values) for values in case.held_out)
    with torch.no_grad():
        scores = model(images.to(dtype))
    if dtype == torch.float32:
        safetensors.torch.save_file(
            model.state_dict(), os.path.join(HERE, "torch_resnet.safetensors")
        )
    correct = scores.argmax(1) == labels
    return curve | {"scores": scores[0].tolist(), "accuracy": correct.double().mean().item()}


def vae_curve(dtype):
    case = cases.vae_case()
    hidden, latent = len(case.initial["encoder.bias"]), len(case.initial["mean.bias"])
    model = load(torch_models.VAE(hidden, latent), case.initial, dtype)
    optimizer = torch.optim.Adam(model.parameters())

    def before_step(number):
        optimizer.param_groups[0]["eps"] = EPS / (1 - 0.999 ** (number + 1)) ** 0.5

    def loss_of(model, x, noise):
        x, noise = (torch.from_numpy(a).to(dtype) for a in (x, noise))
        return model(x, noise) / len(x)

    return train(model, optimizer, case.batches, loss_of, before_step)


def main():
    curves = {
        name: {
            str(dtype).removeprefix("torch."): curve(dtype)
            for dtype in (torch.float64, torch.float32)
        }
        for name, curve in (("gpt", gpt_curve), ("resnet", resnet_curve), ("vae", vae_curve))
    }
    with open(os.path.join(HERE, "torch_curves.json"), "w") as file:
        json.dump({"torch": torch.__version__} | curves, file, indent=1)
    for name, curve in curves.items():
        for what, double in curve["float64"].items():
            difference = np.abs(np.subtract(double, curve["float32"][what])).max()
            print(name, what, np.ravel(double)[[0, -1]], "float32 differs by", difference)


if __name__ == "__main__":
    main()
