"""A daemon of its own, and an operator of each kind on $CHX_DEVICES against NumPy."""

import time

import chx
import numpy as np

SHAPE = (37, 65)


def main():
    begun = time.perf_counter()
    session = chx.connect()
    print(f"ready after {time.perf_counter() - begun:.2f} s: {[d.name for d in session.devices]}")
    rng = np.random.default_rng(7)
    x = rng.normal(size=SHAPE).astype(np.float32)
    y = rng.normal(size=SHAPE).astype(np.float32)
    a, b = chx.array(x), chx.array(y)
    index = np.array([3, 0, 36, 3])
    labels = rng.integers(0, SHAPE[1], SHAPE[0])
    mean = x.mean(1, keepdims=True)
    cases = {
        "upload and fetch": (a, x),
        "add": (a + b, x + y),
        "broadcast": (a * b[0], x * y[0]),
        "negative strides": (a[::-1, ::-2] + 1, x[::-1, ::-2] + 1),
        "transposed": (a.transpose().copy(), x.T),
        "exp": (chx.exp(a), np.exp(x)),
        "tanh": (chx.tanh(a), np.tanh(x)),
        "where": (chx.where(a > b, a, b), np.maximum(x, y)),
        "float16": (a.astype("float16").astype("float32"), x.astype(np.float16).astype(np.float32)),
        "int32": (chx.array(labels) // 3 * 5, labels // 3 * 5),
        "sum": (a.sum(), x.sum()),
        "mean of rows": (a.mean(1), x.mean(1)),
        "max of columns": (a.max(0), x.max(0)),
        "argmax": (a.argmax(1), x.argmax(1)),
        "take": (chx.take(a, chx.array(index), 0), x[index]),
        "concatenate": (chx.concatenate([a, b]), np.concatenate([x, y])),
        "sort": (chx.sort(a, 1), np.sort(x, 1)),
        "cumsum": (chx.cumsum(a, 1), np.cumsum(x, 1)),
        "matmul": (a @ b.transpose(), x @ y.T),
        "integer matmul": (
            chx.array(np.arange(12).reshape(3, 4)) @ chx.array(np.arange(8).reshape(4, 2)),
            np.arange(12).reshape(3, 4) @ np.arange(8).reshape(4, 2),
        ),
        "log_softmax": (
            chx.log_softmax(a, 1),
            x - mean - np.log(np.exp(x - mean).sum(1, keepdims=True)),
        ),
    }
    w = chx.array(x[:, :3]).require_grad()
    chx.sum(w * w * chx.array(y[:, :3])).backward()
    cases["gradient"] = (w.grad, 2 * x[:, :3] * y[:, :3])
    failed = 0
    for name, (got, want) in cases.items():
        try:
            np.testing.assert_allclose(chx.to_numpy(got), want, rtol=2e-5, atol=2e-5)
        except (AssertionError, chx.ChainerxError) as error:
            failed += 1
            print(f"{name}: {error}")
    print(f"{len(cases) - failed} passed, {failed} failed")
    session.close()
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
