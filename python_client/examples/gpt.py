"""Trains a small GPT on the bytes of text files, by default this repository's documentation.

    python gpt.py --steps 2000 --jit --save gpt.safetensors

A decoder of transformer blocks with the normalization before each part (Vaswani et al. 2017; Radford
et al. 2019). Prints losses in nats per byte, then some bytes that the model writes.
"""

import argparse
import dataclasses
import pathlib
import time

import chx
import numpy as np

BYTES = 256
DOCUMENTATION = pathlib.Path(__file__).parents[2] / "docs"


@dataclasses.dataclass(frozen=True)
class Config:
    context: int = 64  # bytes that the model sees
    width: int = 128
    heads: int = 4
    layers: int = 2


def initial(config, seed):
    """Parameters by name, as NumPy arrays: weights ~ N(0, 0.02^2), less where blocks add up."""
    random = np.random.RandomState(seed)

    def normal(*shape, scale=0.02):
        return (random.standard_normal(shape) * scale).astype(np.float32)

    width = config.width
    narrow = 0.02 / (2 * config.layers) ** 0.5
    values = {
        "tokens.weight": normal(BYTES, width),
        "positions.weight": normal(config.context, width),
    }
    layers = {}
    for i in range(config.layers):
        layers |= {
            f"blocks.{i}.attention": normal(3 * width, width),
            f"blocks.{i}.projection": normal(width, width, scale=narrow),
            f"blocks.{i}.wide": normal(4 * width, width),
            f"blocks.{i}.narrow": normal(width, 4 * width, scale=narrow),
        }
    layers["head"] = normal(BYTES, width)
    for name, weight in layers.items():
        values[f"{name}.weight"] = weight
        values[f"{name}.bias"] = np.zeros(len(weight), np.float32)
    norms = [f"blocks.{i}.norm{j}" for i in range(config.layers) for j in (1, 2)]
    for name in (*norms, "norm"):
        values[f"{name}.weight"] = np.ones(width, np.float32)
        values[f"{name}.bias"] = np.zeros(width, np.float32)
    return values


def linear(params, name, x):
    weight, bias = params[f"{name}.weight"], params[f"{name}.bias"]
    return chx.linear(x, weight, bias, n_batch_axes=x.ndim - 1)


def norm(params, name, x):
    return chx.layer_norm(x, x.shape[-1], params[f"{name}.weight"], params[f"{name}.bias"])


def attend(params, name, x, heads):
    """Each position to itself and to those before it."""
    batch, length, width = x.shape
    qkv = linear(params, f"{name}.attention", x).reshape(batch, length, 3 * heads, width // heads)
    q, k, v = chx.split(qkv.transpose(0, 2, 1, 3), 3, axis=1)
    y = chx.scaled_dot_product_attention(q, k, v, is_causal=True)
    return linear(params, f"{name}.projection", y.transpose(0, 2, 1, 3).reshape(x.shape))


def logits(params, config, ids):
    """Of the byte after each of ids (batch, length): (batch, length, 256)."""
    positions = params["positions.weight"][: ids.shape[1]]
    h = chx.embedding(ids, params["tokens.weight"]) + positions
    for i in range(config.layers):
        block = f"blocks.{i}"
        h = h + attend(params, block, norm(params, f"{block}.norm1", h), config.heads)
        wide = chx.gelu(linear(params, f"{block}.wide", norm(params, f"{block}.norm2", h)))
        h = h + linear(params, f"{block}.narrow", wide)
    return linear(params, "head", norm(params, "norm", h))


def loss_of(params, config, ids, targets):
    return chx.cross_entropy(logits(params, config, ids).reshape(-1, BYTES), targets.reshape(-1))


def optimizer_of(params, rate, decay=0.1):
    """AdamW and what sets its rate, and the decay that goes with it, for each step."""
    optimizer = chx.optimizers.AdamW(beta2=0.95).setup(params)
    set_rate = chx.schedules.on(
        optimizer, alpha=rate, weight_decay_rate=lambda number: decay * rate(number)
    )
    return optimizer, set_rate


def step_of(params, config, optimizer, max_norm=1.0):
    """A function that takes a step for ids and targets, and gives the loss before it."""

    def step(ids, targets):
        loss = loss_of(params, config, ids, targets)
        loss.backward()
        chx.optimizers.clip_grad_norm(params.values(), max_norm)
        optimizer.update()
        optimizer.cleargrads()
        return loss.as_grad_stopped()  # whoever keeps that, keeps no graph

    return step


def minibatches(text, context, batch_size, steps, seed):
    """Pairs of ids and targets, int32 (batch_size, context), from random places of the text."""
    random = np.random.RandomState(seed)
    for _ in range(steps):
        begins = random.randint(0, len(text) - context, batch_size)
        windows = text[begins[:, None] + np.arange(context + 1)].astype(np.int32)
        yield windows[:, :-1], windows[:, 1:]


def write(params, config, begin, count, seed):
    """Text that goes on from `begin`, each byte drawn from what the model gives for it."""
    random = np.random.RandomState(seed)
    ids = list(begin)
    for _ in range(count):
        # A buffer of one length, so that operators repeat.
        seen = ids[-config.context :]
        padded = np.zeros((1, config.context), np.int32)
        padded[0, : len(seen)] = seen
        with chx.no_backprop_mode():
            scores = logits(params, config, chx.array(padded))[0, len(seen) - 1]
            chances = chx.to_numpy(chx.softmax(scores, axis=0)).astype(np.float64)
        ids.append(int(random.choice(BYTES, p=chances / chances.sum())))
    return bytes(ids)


def read(paths):
    return np.frombuffer(b"".join(path.read_bytes() for path in paths), np.uint8)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=pathlib.Path, help="texts; default: docs/*.md")
    parser.add_argument("--server", help="address of a chxd; default: $CHX_SERVER or a private one")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jit", action="store_true", help="each step is one command")
    parser.add_argument("--save", metavar="FILE", help="write the parameters: .safetensors")
    parser.add_argument("--write", type=int, default=200, metavar="BYTES", help="at the end")
    parser.add_argument("--max-loss", type=float, help="fail above this loss of the held out text")
    args = parser.parse_args()
    config = Config()
    text = read(args.files or sorted(DOCUMENTATION.glob("*.md")))
    train, held_out = np.split(text, [int(len(text) * 0.9)])
    with chx.connect(args.server):
        params = {
            name: chx.array(value).require_grad()
            for name, value in initial(config, args.seed).items()
        }
        rate = chx.schedules.warm_up(50, chx.schedules.cosine(args.rate, args.steps))
        optimizer, set_rate = optimizer_of(params, rate)
        step = step_of(params, config, optimizer)
        if args.jit:
            step = chx.jit(step)
        test = next(minibatches(held_out, config.context, 64, 1, args.seed))
        test = [chx.array(values) for values in test]
        batches = minibatches(train, config.context, args.batch_size, args.steps, args.seed)
        print("step  train loss  test loss  bytes/s")
        start, losses, test_loss = time.perf_counter(), [], float("nan")
        for number, (ids, targets) in enumerate(chx.data.prefetch(batches)):
            set_rate(number)
            losses.append(step(ids, targets))
            if (number + 1) % 100 == 0 or number + 1 == args.steps:
                train_loss = float(chx.mean(chx.stack(losses)))
                speed = len(losses) * ids.size / (time.perf_counter() - start)
                with chx.no_backprop_mode():
                    test_loss = float(loss_of(params, config, *test))
                print(f"{number + 1:4}  {train_loss:10.4f}  {test_loss:9.4f}  {speed:7.0f}")
                start, losses = time.perf_counter(), []
        if args.save:
            chx.safetensors.save_file(params, args.save)
        if args.write:
            text = write(params, config, b"A session ", args.write, args.seed)
            print(text.decode(errors="replace"))
    if args.max_loss is not None and not test_loss <= args.max_loss:
        raise SystemExit(f"a loss of {test_loss:.4f} is above {args.max_loss}")


if __name__ == "__main__":
    main()
