"""Chainer's kernels of pooling by regions, against what g++ makes of the same text."""

import ctypes
import inspect
import re
import subprocess

import chx
import numpy as np
import pytest
from chainer.functions.pooling import roi_average_pooling_2d, roi_max_pooling_2d
from chx import kernels

C_TYPES = {"T": "float", "int32": "int"}
PROLOGUE = """
#include <algorithm>
#include <cmath>
using namespace std;
typedef float T;
"""


def texts(function):
    """The strings of the kernel that a function of Chainer's runs: inputs, outputs, operation."""
    source = inspect.getsource(function.forward_gpu)
    inputs, operation = re.findall(r"'''(.*?)'''", source, re.S)[:2]
    (outputs,) = re.findall(r"'(T top_data[^']*)'", source)
    return inputs, outputs, operation


def compiled(folder, inputs, outputs, operation):
    """A function of the number of elements, pointers and numbers."""
    parameters = []
    for parameter in inputs.split(","):
        *raw, kind, name = parameter.split()
        parameters.append(f"{'const ' if raw else ''}{C_TYPES[kind]}{'*' if raw else ''} {name}")
    elements = ""
    for output in outputs.split(","):
        kind, name = output.split()
        parameters.append(f"{C_TYPES[kind]}* {name}_")
        elements += f"{C_TYPES[kind]}& {name} = {name}_[i];"
    source = (
        PROLOGUE + f'extern "C" void run(int n_, {", ".join(parameters)}) {{\n'
        f"for (int i = 0; i < n_; ++i) {{ {elements} {operation} }} }}"
    )
    library = folder / "kernel.so"
    command = ["g++", "-x", "c++", "-O1", "-w", "-ffp-contract=off", "-shared", "-fPIC", "-o"]
    subprocess.run([*command, library, "-"], input=source, text=True, check=True)
    return ctypes.CDLL(str(library)).run


@pytest.mark.parametrize(
    "function", [roi_average_pooling_2d.ROIAveragePooling2D, roi_max_pooling_2d.ROIMaxPooling2D]
)
def test_regions(rng, tmp_path, function):
    inputs, outputs, operation = texts(function)
    run = compiled(tmp_path, inputs, outputs, operation)
    kernel = kernels.ElementwiseKernel(inputs, outputs, operation, "regions")
    for _ in range(8):
        x = rng.normal(size=(3, 2, 12, 8)).astype("f")
        rois = np.sort(rng.uniform(-2, 14, size=(5, 2, 2)), axis=1).reshape(5, 4).astype("f")
        batch = rng.integers(0, 3, 5).astype("i")
        scale, sizes, shape = 0.6, (2, 12, 8, 3, 4), (5, 2, 3, 4)
        want = [np.zeros(shape, "f" if o.split()[0] == "T" else "i") for o in outputs.split(",")]
        got = [chx.array(a) for a in want]
        pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (x, rois, batch, *want)]
        numbers = (ctypes.c_float(scale), *map(ctypes.c_int, sizes))
        run(ctypes.c_int(want[0].size), *pointers[:3], *numbers, *pointers[3:])
        kernel(*map(chx.array, (x, rois, batch)), scale, *sizes, *got)
        for a, b in zip(got, want):
            np.testing.assert_array_equal(chx.to_numpy(a), b)
