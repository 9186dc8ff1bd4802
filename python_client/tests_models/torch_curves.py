"""The losses of PyTorch for cases.py, which models_test.py compares with those of chx.

    PYTHONPATH=FOLDER_WITH_CHX python torch_curves.py

Writes torch_curves.json, and the state_dict of the residual network once it is trained. Needs torch and
safetensors. Each curve is there in float64, and in float32: how far they are from each other shows
what rounding does to such a curve.
"""

import json
import os

import cases
import numpy as np
import safetensors.torch
import torch
import torch.nn.functional as F
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
BETAS, EPS = (0.9, 0.95), 1e-8


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.attention(self.norm1(x)).split(width, dim=-1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).reshape(x.shape))
        return x + self.narrow(F.gelu(self.wide(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.tokens = nn.Embedding(256, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        self.blocks = nn.ModuleList(Block(config.width, config.heads) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, 256)

    def forward(self, ids):
        h = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h))


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
    return losses


def gpt_curve(dtype):
    case = cases.gpt_case()
    model = load(GPT(case.config), case.initial, dtype)
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


class Conv(nn.Module):
    """A convolution and its normalization."""

    def __init__(self, inputs, outputs, size, stride):
        super().__init__()
        conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
        self.weight = conv.weight
        self._stride, self._padding = conv.stride, conv.padding
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x):
        return self.norm(F.conv2d(x, self.weight, None, self._stride, self._padding))


class Residual(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1 = Conv(inputs, width, 3, stride)
        self.conv2 = Conv(width, width, 3, 1)
        self.shortcut = Conv(inputs, width, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x):
        return F.relu(self.conv2(F.relu(self.conv1(x))) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, widths):
        super().__init__()
        self.first = Conv(1, widths[0], 3, 1)
        inputs = (widths[0], *widths)
        self.blocks = nn.Sequential(
            *(Residual(inputs[i], width, 2 if i else 1) for i, width in enumerate(widths))
        )
        self.last = nn.Linear(widths[-1], 10)

    def forward(self, x):
        return self.last(self.blocks(F.relu(self.first(x))).mean((2, 3)))


def resnet_curve(dtype):
    case = cases.resnet_case()
    model = load(ResNet(case.widths), case.initial | case.stats, dtype)
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9, weight_decay=case.decay)

    def before_step(number):
        optimizer.param_groups[0]["lr"] = case.rate(number)

    def loss_of(model, x, t):
        return F.cross_entropy(model(torch.from_numpy(x).to(dtype)), torch.from_numpy(t).long())

    losses = train(model, optimizer, case.batches, loss_of, before_step)
    model.eval()
    with torch.no_grad():
        scores = model(torch.from_numpy(case.batches[0][0]).to(dtype))
    if dtype == torch.float32:
        safetensors.torch.save_file(
            model.state_dict(), os.path.join(HERE, "torch_resnet.safetensors")
        )
    return [*losses, *scores[0].tolist()]


class VAE(nn.Module):
    def __init__(self, hidden, latent):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(784, hidden), nn.Linear(latent, hidden)
        self.mean, self.log_variance = nn.Linear(hidden, latent), nn.Linear(hidden, latent)
        self.pixels = nn.Linear(hidden, 784)

    def forward(self, x, noise):
        h = F.relu(self.encoder(x))
        mean, log_variance = self.mean(h), self.log_variance(h)
        normal = torch.distributions.Normal(mean, torch.exp(log_variance / 2))
        prior = torch.distributions.Normal(torch.zeros_like(mean), torch.ones_like(mean))
        y = self.pixels(F.relu(self.decoder(mean + normal.scale * noise)))
        divergence = torch.distributions.kl_divergence(normal, prior).sum()
        return F.binary_cross_entropy_with_logits(y, x, reduction="sum") + divergence


def vae_curve(dtype):
    case = cases.vae_case()
    hidden, latent = len(case.initial["encoder.bias"]), len(case.initial["mean.bias"])
    model = load(VAE(hidden, latent), case.initial, dtype)
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
        double, single = np.array(curve["float64"]), np.array(curve["float32"])
        print(name, double[[0, -1]], "float32 differs by", np.abs(double - single).max())


if __name__ == "__main__":
    main()
