"""The examples' models in PyTorch, with parameters of the same names."""

import torch
import torch.nn.functional as F
from torch import nn


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
