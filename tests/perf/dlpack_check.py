"""Exchanges arrays with PyTorch and JAX by DLPack, both ways, and says where a copy was made.

tools/bench.sh dlpack runs it with what its environments have. Prints one line for each library, way and
layout: "memory" is the same memory, by its address. Fails if a value, a dtype or a line is not what
docs/numpy.md says.
"""

import collections
import importlib.util
import re
import sys

import chx
import numpy as np

DTYPES = "bool int8 int16 int32 int64 uint8 float16 float32 float64".split()
if importlib.util.find_spec("ml_dtypes"):
    DTYPES.append("bfloat16")


def floats(dtype):
    return "float" in dtype


# layout -> how it is made of a matrix, C-contiguous and aligned to 64 bytes
LAYOUTS = {
    "C order": lambda a: a,
    "0-d": lambda a: a[0, 0],
    "0-d, not aligned": lambda a: a[1, 3],
    "empty": lambda a: a[:0],
    "transposed": lambda a: a.T,
    "rows from the second on": lambda a: a[1:],
    "strides": lambda a: a[::2, 1:5],
    "negative strides": lambda a: a[::-1],
    "broadcast": lambda a: chx.broadcast_to(a[0], (3, 6)),
    "in a graph": lambda a: a.require_grad(),
    "large": lambda a: chx.broadcast_to(a[:, None], (4, 50000, 6)).copy(),
    "large, transposed": lambda a: chx.broadcast_to(a[:, None], (4, 50000, 6)).copy().T,
}
NOT_OURS = r"CopyError: \[from_dlpack\] expects copy=None or True: the memory is of this process"


def matrix(dtype):
    return chx.array((np.arange(24) % (2 if dtype == "bool" else 24)).reshape(4, 6), dtype)


def address_of(x):
    return chx.to_numpy(x, copy=False).ctypes.data


def aligned(x):
    return address_of(x) % 64 == 0


class Torch:
    def __init__(self):
        import torch

        self.module = torch
        self.name = f"PyTorch {torch.__version__}"
        self.asks_for_1 = int(torch.__version__.split(".")[1]) >= 9
        self.never = {"copy": False} if self.asks_for_1 else None

    def take(self, x, **options):
        return self.module.from_dlpack(x, **options)

    def own(self, values, layout):
        t = self.module.tensor(values.tolist(), dtype=getattr(self.module, values.dtype.name))
        t = t.reshape(values.shape)
        if layout == "strides":  # what a view of a wider one is
            t = t.repeat_interleave(2, -1)[..., ::2]
        axes = tuple(reversed(range(t.ndim)))
        return t.permute(axes).contiguous().permute(axes) if "transposed" in layout else t

    def address(self, t):
        return t.data_ptr()

    def dtype(self, t):
        return str(t.dtype).removeprefix("torch.")

    def numpy(self, t):
        return np.array(t.tolist()).reshape(t.shape)

    def out(self, layout, x):
        if layout in ("broadcast", "in a graph"):
            return "memory" if self.asks_for_1 else "copy"
        return "copy" if layout == "negative strides" else "memory"

    def must_not_copy(self, layout, x):
        return "memory" if layout != "negative strides" else "RuntimeError: Storage size"

    def check_writes(self):
        x = chx.zeros((3, 4))
        t, copied = self.take(x[:, ::2]), self.take(x.copy())
        t += 2
        x += 1
        chx.to_numpy(x)
        assert x.tolist() == [[3, 1, 3, 1]] * 3 and t.tolist() == [[3, 3]] * 3
        assert copied.tolist() == [[0] * 4] * 3
        back = chx.from_dlpack(t[1:])
        back.fill(7)
        chx.to_numpy(back)
        assert x.tolist() == [[3, 1, 3, 1], [7, 1, 7, 1], [7, 1, 7, 1]]

    def foreign(self):
        torch = self.module
        yield "requires_grad", torch.ones(3, requires_grad=True), "require.* grad"
        yield "complex64", torch.ones(2, dtype=torch.complex64), "expects bool, integers or floats"
        if hasattr(torch, "uint16"):
            yield "uint16", torch.ones(2, dtype=torch.uint16), "unsupported dtype: uint16"
        yield "sparse", torch.eye(3).to_sparse(), "layout other than torch.strided"


class Jax:
    never = {"copy": False}

    def __init__(self):
        import jax

        jax.config.update("jax_enable_x64", True)
        self.module = jax
        self.name = f"JAX {jax.__version__}"

    def take(self, x, **options):
        return self.module.dlpack.from_dlpack(x, **options)

    def own(self, values, layout):
        return self.module.numpy.array(values)

    def address(self, t):
        return t.unsafe_buffer_pointer()

    def dtype(self, t):
        return str(t.dtype)

    def numpy(self, t):
        return np.asarray(t)

    def out(self, layout, x):
        if layout == "strides":
            return "JaxRuntimeError: UNIMPLEMENTED: Only DLPack tensors with trivial"
        # From a broadcast array or one in a graph it gets a copy, as JAX asks for no DLPack 1.
        made = layout in ("negative strides", "broadcast", "in a graph")
        return "copy" if made or not aligned(x) else "memory"

    def must_not_copy(self, layout, x):
        refused = "ValueError: .* not aligned to 64 bytes"
        if layout in ("negative strides", "broadcast", "in a graph"):
            return f"copy|{refused}"  # JAX tells chx nothing of it, and so gets a copy of chx's
        return self.out(layout, x) if layout == "strides" or aligned(x) else refused

    def check_writes(self):
        """JAX takes arrays for constant: what is written here is seen there all the same."""
        x = chx.zeros((16, 16))
        t, copied = self.take(x), self.module.numpy.array(self.take(x), copy=True)
        same = self.take(x, copy=True)
        x += 1
        chx.to_numpy(x)
        assert self.numpy(t).tolist() == [[1] * 16] * 16
        assert self.numpy(copied).tolist() == [[0] * 16] * 16
        # It is no copy where none is needed, whatever it says.
        assert self.numpy(same).tolist() == [[1] * 16] * 16

    def foreign(self):
        ones = self.module.numpy.ones
        yield "complex64", ones(2, "complex64"), "expects bool, integers or floats"
        yield "uint16", ones(2, "uint16"), "unsupported dtype: uint16"
        yield "float8_e4m3fn", ones(2, "float8_e4m3fn"), "expects bool, integers or floats"


def outcome(function, *arguments):
    """What it is, or the error's kind and message."""
    try:
        return function(*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


class Check:
    def __init__(self, library):
        self.library, self.failed = library, 0

    def same(self, t, x, address):
        """How an array of the other library, or one that came from there, has the values of x."""
        ours = isinstance(t, chx.ndarray)
        values = chx.to_numpy(t) if ours else self.library.numpy(t)
        dtype = t.dtype.name if ours else self.library.dtype(t)
        if dtype != x.dtype.name or tuple(t.shape) != tuple(x.shape):
            return f"wrong: {dtype} {tuple(t.shape)}"
        if not np.array_equal(values.astype("float64"), chx.to_numpy(x).astype("float64")):
            return "wrong values"
        if not x.size:
            return "empty"
        return (
            "memory" if (address_of(t) if ours else self.library.address(t)) == address else "copy"
        )

    def ways(self, layout, dtype):
        """(way, what is expected, what was seen)"""
        library, x = self.library, LAYOUTS[layout](matrix(dtype))

        def way(name, expected, make, address):
            found = outcome(lambda: self.same(make(), x, address))
            return name, expected if x.size else "empty", found

        at = address_of(x) if x.size else None
        expected = library.out(layout, x) if x.size else ""
        yield way("out", expected, lambda: library.take(x), at)
        yield way("out and back", expected, lambda: chx.from_dlpack(library.take(x)), at)
        if library.never:
            must_not = library.must_not_copy(layout, x) if x.size else ""
            yield way("out, copy=False", must_not, lambda: library.take(x, **library.never), at)
        own = library.own(chx.to_numpy(x), layout)
        at = library.address(own) if x.size else None
        yield way("its own to chx", "copy", lambda: chx.from_dlpack(own), at)
        never = "its own to chx, copy=False"
        yield way(never, NOT_OURS, lambda: chx.from_dlpack(own, copy=False), at)

    def run(self):
        for layout in LAYOUTS:
            seen = collections.defaultdict(lambda: collections.defaultdict(list))
            for dtype in DTYPES:
                if layout == "in a graph" and not floats(dtype):
                    continue
                for way, expected, found in self.ways(layout, dtype):
                    if not re.match(expected, found):
                        self.fail(f"{layout}, {dtype}, {way}: expects {expected}, got {found}")
                    seen[way][found[:90]].append(dtype)
            for way, found in seen.items():
                whole = len(found) == 1
                words = (k if whole else f"{k} ({' '.join(v)})" for k, v in found.items())
                print(f"{self.library.name} | {layout} | {way} | {'; '.join(words)}")
        self.library.check_writes()
        for name, t, message in self.library.foreign():
            found = outcome(chx.from_dlpack, t)
            print(f"{self.library.name} | {name} | its own to chx | {found}")
            if not re.search(message, str(found)):
                self.fail(f"{name}: expects {message}")
        return self.failed

    def fail(self, what):
        self.failed += 1
        print(f"FAILED: {self.library.name}: {what}", file=sys.stderr)


def main():
    print(f"chx {chx.__version__}, NumPy {np.__version__}, dtypes {' '.join(DTYPES)}")
    failed = 0
    with chx.connect():
        for library, module in ((Torch, "torch"), (Jax, "jax")):
            if importlib.util.find_spec(module):
                failed += Check(library()).run()
            else:
                print(f"{module} is not installed")
    if failed:
        raise SystemExit(f"{failed} are not as expected")


if __name__ == "__main__":
    main()
