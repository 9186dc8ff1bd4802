"""A typed program, which typing_test.py runs and checks with mypy --strict."""

import asyncio

import chx
import numpy as np
from chx import array_api as xp


def train(steps: int) -> float:
    rng = chx.random.default_rng(1)
    x = rng.normal(size=(8, 3), dtype="float32")
    weights = chx.zeros((3, 2), dtype="float32").require_grad()
    optimizer = chx.optimizers.Adam(alpha=0.1).setup({"weights": weights})
    optimizer.add_hook(chx.optimizers.WeightDecay(1e-4))
    loss = chx.sum(chx.square(x @ weights))
    for _ in range(steps):
        loss = chx.mean(chx.square(chx.tanh(x @ weights) - 1.0))
        loss.backward()
        optimizer.update()
        optimizer.cleargrads()
    return float(loss)


def beside_numpy(x: chx.ndarray, weights: chx.ndarray) -> chx.ndarray:
    optimizer = chx.optimizers.AdamW(alpha=0.1).setup([weights])
    optimizer.alpha = optimizer.alpha / 2
    y = x + np.ones((8, 1)) - [[0.5]]
    y @= chx.maximum(np.eye(3), [1.0, 0.0, 0.0] * weights[0, 0])
    return chx.concatenate([y, [[1.0, 2.0, 3.0]], np.zeros((1, 3))])


def numpy_functions(x: chx.ndarray) -> list[chx.ndarray]:
    kept: chx.ndarray = chx.where(x > 0, x, 0.0)
    values, counts = chx.histogram(x, bins=4)
    return [
        chx.sort(x, axis=0),
        chx.median(x, axis=(0, 1)),
        chx.einsum("ij,ij->", x, x),
        chx.linalg.norm(x),
        chx.linalg.solve(chx.eye(8), x),
        xp.mean(x, axis=0),
        kept[::2, 1],
        values,
        counts,
        *chx.split(x, 2),
    ]


async def read(x: chx.ndarray) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return await x.to_numpy_async()


def main() -> None:
    with chx.connect(devices="native:0") as session, chx.using_device("native:0"):
        assert train(20) < train(1)
        x = chx.array(np.arange(24.0).reshape(8, 3))
        assert len(numpy_functions(x)) == 11
        assert beside_numpy(x, chx.ones((3, 3)).require_grad()).shape == (10, 3)
        with chx.no_backprop_mode(), chx.backprop_scope("outer") as graph:
            assert not chx.is_backprop_required(graph) or graph.name == "outer"
        shapes: dict[str, tuple[int, ...]] = {"x": x.shape}
        assert asyncio.run(read(x)).shape == shapes["x"]
        session.synchronize()


if __name__ == "__main__":
    main()
