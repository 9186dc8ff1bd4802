"""What the examples share."""

import math

import chx


def init_mlp(sizes, seed):
    """Weights ~ N(0, 1/fan_in) and zero biases for a multi-layer perceptron, as leaves.

    client/examples/mnist.cc draws the same numbers in the same order.
    """
    chx.random.seed(seed)
    params = []
    for fan_in, fan_out in zip(sizes[:-1], sizes[1:], strict=True):
        scale = 1.0 / math.sqrt(fan_in)
        w = chx.random.normal(0.0, scale, (fan_out, fan_in), dtype="float32")
        b = chx.zeros((fan_out,))
        params += [w.require_grad(), b.require_grad()]
    return params


def mlp(x, params):
    """Linear layers with relu between them."""
    for i in range(0, len(params), 2):
        x = chx.linear(x, params[i], params[i + 1])
        if i + 2 < len(params):
            x = chx.relu(x)
    return x


def sgd(params, lr):
    """p -= lr * grad, outside of the graph."""
    for p in params:
        values = p.as_grad_stopped()
        values -= p.grad.as_grad_stopped() * lr
        p.cleargrad()


def permutation(n, seed):
    """A permutation of range(n): Fisher-Yates with a 64-bit linear congruential generator.

    Simple enough for client/examples/mnist.cc to make the same one.
    """
    state = (seed * 2862933555777941757 + 3037000493) % 2**64
    order = list(range(n))
    for i in range(n - 1, 0, -1):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        j = (state >> 33) % (i + 1)
        order[i], order[j] = order[j], order[i]
    return order
