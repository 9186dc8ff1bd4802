"""Gradients up to the third order against PyTorch's, before anybody compares their speed.

CHX_SERVER or CHX_CHXD must be set; exits with an error if they differ. tools/bench.sh runs it.
"""

import chx
import numpy as np
import torch


def by_torch(values):
    leaves = [torch.tensor(v, requires_grad=True) for v in values]
    x, w1, w2 = leaves
    h = torch.tanh(x @ w1.T)
    y = h @ w2.T
    loss = torch.nn.functional.cross_entropy(y, torch.tensor([0, 1, 1, 0]))
    first = torch.autograd.grad(loss, leaves, create_graph=True)
    penalty = sum((g**2).sum() for g in first) + torch.logsumexp(y[:, 0] * h[:, 0], 0)
    second = torch.autograd.grad(penalty, leaves, create_graph=True)
    sum((g * g).mean() for g in second).backward()
    return [loss, penalty, *first, *second, *(a.grad for a in leaves)]


def by_chx(values):
    leaves = [chx.array(v).require_grad() for v in values]
    x, w1, w2 = leaves
    h = chx.tanh(chx.linear(x, w1))
    y = chx.linear(h, w2)
    loss = chx.softmax_cross_entropy(y, chx.array([0, 1, 1, 0])).mean()
    first = chx.grad([loss], leaves, enable_double_backprop=True)
    penalty = chx.logsumexp(y[:, 0] * h[:, 0])
    for g in first:
        penalty = penalty + chx.sum(g * g)
    second = chx.grad([penalty], leaves, enable_double_backprop=True)
    chx.backward([(g * g).mean() for g in second])
    return [loss, penalty, *first, *second, *(a.grad for a in leaves)]


def main():
    rng = np.random.default_rng(0)
    values = [rng.normal(size=s) for s in [(4, 3), (5, 3), (2, 5)]]
    for theirs, ours in zip(by_torch(values), by_chx(values), strict=True):
        np.testing.assert_allclose(chx.to_numpy(ours), theirs.detach().numpy(), rtol=1e-9)
    print("gradients up to the third order are PyTorch's")


if __name__ == "__main__":
    main()
