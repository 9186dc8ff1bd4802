import numpy as np

from ..table import FLOATS, row
from .loss import labels

INTEGERS = ("int64", "int32", "int8")


def log_softmax(x, axis):
    x = x - x.max(axis=axis, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=axis, keepdims=True))


def reduced(loss, total, reduction, dtype):
    wide = loss.astype("float64")
    with np.errstate(all="ignore"):
        result = {"none": wide, "sum": wide.sum(), "mean": wide.sum() / total}[reduction]
    return np.asarray(result).astype(dtype)


def own(x, t, ignore):
    """What x, whose axis 1 has the classes, has at the labels; and which labels count."""
    used = t != ignore
    index = np.expand_dims(np.where(used, t, 0), 1)
    return np.take_along_axis(x, index, 1)[:, 0], used


def nll_loss(x, t, w=None, ignore=-100, reduction="mean"):
    picked, used = own(x, t, ignore)
    w = np.ones(x.shape[1]) if w is None else w
    weight = np.where(used, w[np.where(used, t, 0)], 0)
    return reduced(-picked * weight, weight.astype("float64").sum(), reduction, x.dtype)


def cross_entropy(x, t, w=None, ignore=-100, reduction="mean", smoothing=0.0):
    logs = log_softmax(x, 1)
    w = np.ones(x.shape[1]) if w is None else w
    column = w.reshape(-1, *[1] * (x.ndim - 2))
    if t.dtype.kind == "f":
        t = t * (1 - smoothing) + smoothing / x.shape[1]
        loss = -(logs * t * column).sum(1)
        return reduced(loss, loss.size, reduction, x.dtype)
    _, used = own(x, t, ignore)
    weight = np.where(used, w[np.where(used, t, 0)], 0)
    everywhere = np.where(used, -(logs * column).sum(1), 0)
    loss = (1 - smoothing) * -own(logs, t, ignore)[0] * weight
    loss = loss + smoothing / x.shape[1] * everywhere
    return reduced(loss, weight.astype("float64").sum(), reduction, x.dtype)


FORMS = {
    "mean": {"reduction": "mean"},
    "sum": {"reduction": "sum"},
    "none": {"reduction": "none"},
    "ignored": {"ignore_index": 1, "reduction": "mean"},
    "minus": {"ignore_index": -1, "reduction": "sum"},
}


def reference(form):
    form = dict(form)
    form["ignore"] = form.pop("ignore_index", -100)
    form["smoothing"] = form.pop("label_smoothing", 0.0)
    return form


def indices(op, ref, forms, weighted, shape):
    for name, form in forms.items():
        low = -1 if name == "minus" else 0
        given = reference(form)
        if op == "nll_loss":
            given.pop("smoothing")
        row(
            op,
            lambda chx, *xs, o=op, f=form: getattr(chx, o)(*xs, **f),
            lambda *xs, g=given, r=ref: r(*xs, **g),
            [shape, (shape[0], *shape[2:]), (shape[1],)][: 2 + weighted],
            dtypes=[FLOATS, INTEGERS, FLOATS][: 2 + weighted],
            grad=[0, 2][: 1 + weighted],
            domain=[(-3, 3), labels(low, shape[1]), (0.5, 2)][: 2 + weighted],
            same_dtypes=False,
            name=f"{op}-{name}-{'weighted-' if weighted else ''}{'x'.join(map(str, shape))}",
        )


SMOOTH = {
    f"smooth-{reduction}": {"label_smoothing": 0.2, "ignore_index": 2, "reduction": reduction}
    for reduction in ("mean", "none")
}
for weighted in (False, True):
    indices("cross_entropy", cross_entropy, {**FORMS, **SMOOTH}, weighted, (6, 4))
    indices("nll_loss", nll_loss, FORMS, weighted, (6, 4))
    indices("cross_entropy", cross_entropy, SMOOTH, weighted, (3, 4, 2, 2))
    indices("nll_loss", nll_loss, {"none": FORMS["none"]}, weighted, (3, 4, 2))
indices("cross_entropy", cross_entropy, {"none": FORMS["none"]}, False, (0, 4))
for op, form in (("class_labels", FORMS["ignored"]), ("nll_loss_elements", FORMS["none"])):
    row(
        op,
        lambda chx, x, t, f=form: chx.nll_loss(x, t, **f),
        lambda x, t, f=form: nll_loss(
            x, t, ignore=f.get("ignore_index", -100), reduction=f["reduction"]
        ),
        [(50, 70, 3), (50, 3)],
        dtypes=[FLOATS, ("int64", "int32", "uint8")],
        grad=[0],
        domain=[(-3, 3), labels(0, 70)],
        same_dtypes=False,
        name=op,
    )
row(
    "cross_entropy",
    lambda chx, x, t: chx.cross_entropy(x, t),
    lambda x, t: cross_entropy(x[None], t[None]),
    [(4,), ()],
    dtypes=[FLOATS, INTEGERS],
    grad=[0],
    domain=[(-3, 3), labels(0, 4)],
    same_dtypes=False,
    name="cross_entropy-one-sample",
)


def smooth_gradient(x, t, gy):
    used = (t != -100)[:, None]
    onehot = np.eye(x.shape[1])[np.where(t == -100, 0, t).astype(int)]
    expected = 0.8 * onehot + 0.2 / x.shape[1]
    return np.where(used, np.exp(log_softmax(x, 1)) - expected, 0) * gy[:, None]


def chx_smooth_gradient(chx, x, t, gy):
    x = x.as_grad_stopped().require_grad()
    y = chx.cross_entropy(x, t, reduction="none", label_smoothing=0.2)
    return chx.grad([y], [x], grad_outputs=[gy])[0]


def with_infinity(rng, shape):
    x = np.where(rng.random(shape) < 0.2, -np.inf, rng.normal(size=shape))
    x[:, 0] = 0
    return x


def some_ignored(classes):
    return lambda rng, shape: np.where(
        rng.random(shape) < 0.2, -100, rng.integers(0, classes, shape)
    )


# Longer than a block of 1024; many rows; classes that are ruled out.
for shape, domain, targets in (
    ((5, 2500), (-9, 9), some_ignored(2500)),
    ((300, 130), (-9, 9), some_ignored(130)),
    ((7, 3), with_infinity, labels(0, 3)),
):
    row(
        "smooth_cross_entropy",
        lambda chx, x, t: chx.cross_entropy(x, t, reduction="none", label_smoothing=0.2),
        lambda x, t: cross_entropy(x, t, reduction="none", smoothing=0.2),
        [shape, shape[:1]],
        dtypes=[FLOATS, INTEGERS[:2]],
        domain=[domain, targets],
        same_dtypes=False,
        name=f"smooth_cross_entropy-{shape}",
    )
    row(
        "smooth_cross_entropy_grad",
        lambda chx, x, t, gy: chx_smooth_gradient(chx, x, t, gy.astype(x.dtype)),
        lambda x, t, gy: smooth_gradient(x, t, gy.astype(x.dtype)).astype(x.dtype),
        [shape, shape[:1], shape[:1]],
        dtypes=[FLOATS, INTEGERS[:2], ("float64",)],
        domain=[domain, targets, (-1, 1)],
        same_dtypes=False,
        name=f"smooth_cross_entropy_grad-{shape}",
    )


def distribution(rng, shape):
    x = np.exp(rng.normal(size=shape))
    return x / x.sum(1, keepdims=True)


for name, form in {**FORMS, **SMOOTH}.items():
    if "ignore" in name or name == "minus":
        continue
    row(
        "cross_entropy",
        lambda chx, x, t, w, f=form: chx.cross_entropy(x, t, w, **f),
        lambda x, t, w, f=form: cross_entropy(x, t, w, **reference(f)),
        [(3, 4, 2), (3, 4, 2), (4,)],
        grad=[0, 1, 2],
        domain=[(-3, 3), distribution, (0.5, 2)],
        name=f"cross_entropy-probabilities-{name}",
    )


def kl_div(x, t, reduction, log_target):
    with np.errstate(all="ignore"):
        logs = np.where(t == 0, 0, np.log(np.where(t == 0, 1, t)))
        loss = np.exp(t) * (t - x) if log_target else t * logs - t * x
    if reduction == "batchmean":
        return reduced(loss, len(x), "mean", x.dtype)
    return reduced(loss, loss.size, reduction, x.dtype)


def with_zeros(rng, shape):
    return rng.uniform(0.1, 1, shape) * (rng.random(shape) < 0.7)


for reduction in ("mean", "sum", "none", "batchmean"):
    for log_target in (False, True):
        row(
            "kl_div",
            lambda chx, x, t, r=reduction, g=log_target: chx.kl_div(x, t, r, log_target=g),
            lambda x, t, r=reduction, g=log_target: kl_div(x, t, r, g),
            [(3, 4), (4,)],
            grad=[0, 1],
            domain=[(-3, -0.1), (0.1, 1)],
            name=f"kl_div-{reduction}-{'log' if log_target else 'plain'}",
        )
row(
    "kl_div",
    lambda chx, x, t: chx.kl_div(x, t, "none"),
    lambda x, t: kl_div(x, t, "none", False),
    [(3, 4), (3, 4)],
    grad=[0],
    domain=[(-3, -0.1), with_zeros],
    name="kl_div-zeros",
)
