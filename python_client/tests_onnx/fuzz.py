"""Models with something wrong in them: each is refused, with a clear exception, or works.

    CHX_CHXD=... PYTHONPATH=FOLDER_WITH_CHX python fuzz.py SECONDS [SEED [COUNT]]

Models are cases of ONNX's own suite, changed in their bytes or in their fields. Each runs in a session
of 256 MiB, in a process of limited memory, and a call that does not end within 20 s ends the process.
fuzz_test.py runs it for some seconds. It prints its seed; `fuzz.py 0 SEED 1` runs one model again.
"""

import collections
import contextlib
import faulthandler
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import chx
import chx.onnx
import numpy as np
import onnx
import suite
from google.protobuf.message import DecodeError
from onnx import AttributeProto, TensorProto

MEMORY = 6 << 30  # of addresses, libraries included
# What says what is wrong. KeyError, AttributeError and the like do not.
CLEAR = (
    ValueError,
    TypeError,
    IndexError,
    RuntimeError,
    chx.ChainerxError,
    chx.NotImplementedError,
)
UNCLEAR = (UnicodeError, RecursionError)
NUMBERS = [0, 1, -1, 2, 3, -7, 2**31 - 1, -(2**31), 2**31, 2**40, 2**63 - 1, -(2**63)]
FLOATS = [0.0, -1.0, float("nan"), float("inf"), 3e38, 1e-45]


class Slow(BaseException):
    """The time of a model is over."""


def flip_bits(rng, data):
    for _ in range(rng.choice([1, 1, 2, 8])):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def truncate(rng, data):
    del data[rng.randrange(len(data)) :]


def repeat_bytes(rng, data):
    start = rng.randrange(len(data))
    piece = data[start : start + rng.choice([1, 4, 40])]
    data[rng.randrange(len(data)) : 0] = piece * rng.choice([1, 3, 100])


def graphs_of(graph):
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from graphs_of(attribute.g)


def huge_dims(rng, graph):
    tensors = [*graph.initializer]
    tensors += [a.t for n in graph.node for a in n.attribute if a.type == AttributeProto.TENSOR]
    tensors = [t for t in tensors if t.dims]
    shapes = [v.type.tensor_type.shape for v in graph.input]
    if tensors and rng.random() < 0.7:
        dims = rng.choice(tensors).dims
        dims[rng.randrange(len(dims))] = rng.choice(NUMBERS)
    elif any(s.dim for s in shapes):
        dim = rng.choice([d for s in shapes for d in s.dim])
        dim.dim_value = rng.choice(NUMBERS)


def other_values(rng, graph):
    """Shapes, axes and counts are in tensors, too."""
    for tensor in graph.initializer:
        try:
            values = onnx.numpy_helper.to_array(tensor).copy()
        except Exception:
            continue
        if values.dtype.kind == "i" and values.size:
            info = np.iinfo(values.dtype)
            number = min(max(rng.choice(NUMBERS), info.min), info.max)
            values.flat[rng.randrange(values.size)] = number
            tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))


def cycle(rng, graph):
    node = rng.choice(graph.node)
    outputs = [o for n in graph.node for o in n.output]
    if node.input and outputs:
        node.input[rng.randrange(len(node.input))] = rng.choice(outputs)


def swap_names(rng, graph):
    names = [*graph.input, *graph.output, *graph.initializer]
    node = rng.choice(graph.node)
    field = rng.choice([node.input, node.output])
    if field and names:
        field[rng.randrange(len(field))] = rng.choice([*(n.name for n in names), "", "?"])


def other_inputs(rng, graph):
    node = rng.choice(graph.node)
    if node.input and rng.random() < 0.5:
        del node.input[rng.randrange(len(node.input)) :]
    else:
        node.input.extend([rng.choice([*node.input, ""])] * rng.choice([1, 9]))


def other_attribute(rng, graph):
    attributes = [a for node in graph.node for a in node.attribute]
    if not attributes:
        return
    attribute = rng.choice(attributes)
    if attribute.ints and rng.random() < 0.8:
        if rng.random() < 0.3:
            attribute.ints.append(rng.choice(NUMBERS))
        attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice(NUMBERS)
    elif attribute.type == AttributeProto.INT and rng.random() < 0.8:
        attribute.i = rng.choice(NUMBERS)
    elif attribute.type == AttributeProto.FLOAT and rng.random() < 0.8:
        attribute.f = rng.choice(FLOATS)
    elif attribute.type == AttributeProto.STRING and rng.random() < 0.8:
        attribute.s = rng.choice([b"", b"\xff\xfe", b"x" * 10000, b"constant"])
    elif rng.random() < 0.5:
        attribute.type = rng.choice(AttributeProto.AttributeType.values())
    else:
        attribute.name = rng.choice(["axis", "axes", "to", "perm", "body", "pads", "?"])


def other_operator(rng, graph):
    rng.choice(graph.node).op_type = rng.choice(OPERATORS)


def other_version(rng, model):
    for opset in model.opset_import:
        opset.version = rng.choice([0, 1, 6, 8, 9, 12, 13, 18, 20, 2**40])


def other_dtype(rng, graph):
    values = [v.type.tensor_type for v in (*graph.input, *graph.output)]
    if values:
        rng.choice(values).elem_type = rng.choice(TensorProto.DataType.values())


BYTES = [flip_bits, flip_bits, truncate, repeat_bytes]
FIELDS = [huge_dims, other_values, cycle, swap_names, other_inputs]
FIELDS += [other_attribute, other_attribute, other_operator, other_dtype]


def changed(rng, model):
    """The bytes of a changed model, and what was done."""
    model, done = onnx.ModelProto.FromString(model.SerializeToString()), []
    for _ in range(rng.choice([0, 1, 1, 2, 4])):
        if rng.random() < 0.05:
            change, target = other_version, model
        else:
            change, target = rng.choice(FIELDS), rng.choice([*graphs_of(model.graph)])
        if change is other_version or target.node:
            change(rng, target)
            done.append(change.__name__)
    data = bytearray(model.SerializeToString())
    if not done or rng.random() < 0.2:
        change = rng.choice(BYTES)
        change(rng, data)
        done.append(change.__name__)
    return bytes(data), done


def has_loops(data):
    """Whether it may rightly run for long: what a file wants is a program."""
    try:
        graph = onnx.ModelProto.FromString(data).graph
    except DecodeError:
        return False
    return any(node.op_type in ("Loop", "Scan") for g in graphs_of(graph) for node in g.node)


def too_slow(*_):
    raise Slow


def run(data, arrays):
    """How it went: "works", "slow" or the kind of exception. Raises what is not clear."""
    signal.alarm(10)
    try:
        model = chx.onnx.load(data)
        result = model(*arrays[: len(model.inputs)])
        for value in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(value, chx.ndarray) and value.nbytes < 1 << 24:
                chx.to_numpy(value)
        return "works"
    except Slow:
        if not has_loops(data):
            raise
        return "slow"
    except CLEAR as error:
        if isinstance(error, UNCLEAR) or not str(error):
            raise
        return type(error).__name__
    finally:
        signal.alarm(0)


def usable():
    with contextlib.suppress(*CLEAR):  # of a write that nothing has read: a wait raises it once
        chx.sum(chx.arange(4)).item()
    assert chx.sum(chx.arange(4)).item() == 6


CASES = [case for kind in ("node", "simple") for _, case in sorted(suite.cases(kind)[0].items())]
OPERATORS = sorted({n.op_type for case in CASES for n in suite.model_of(case).graph.node})


def one(seed):
    rng = random.Random(seed)
    case = rng.choice(CASES)
    data, done = changed(rng, suite.model_of(case))
    arrays = next(suite.data_sets(case))[0]
    faulthandler.dump_traceback_later(20, exit=True)
    try:
        return done, run(data, arrays)
    except BaseException:
        traceback.print_exc()
        raise SystemExit(f"FAILED: fuzz.py 0 {seed} 1: {case.name}, {done}") from None
    finally:
        faulthandler.cancel_dump_traceback_later()


@contextlib.contextmanager
def connected():
    """To a daemon of its own, with little memory for a session."""
    with tempfile.TemporaryDirectory() as folder:
        address = f"unix:{folder}/chxd.sock"
        command = [os.environ["CHX_CHXD"], f"--listen={address}", "--session-memory=256MiB"]
        daemon = subprocess.Popen([*command, "--log-level=error"], stdout=subprocess.PIPE)
        try:
            daemon.stdout.readline()
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            with chx.connect(address):
                yield
            assert daemon.poll() is None
        finally:
            daemon.kill()
            daemon.wait()


def main(seconds, seed=None, count=None):
    seed = random.SystemRandom().randrange(2**31) if seed is None else seed
    print(f"seed {seed}, {len(CASES)} models", flush=True)
    signal.signal(signal.SIGALRM, too_slow)
    outcomes, changes = collections.Counter(), collections.Counter()
    end = time.monotonic() + seconds
    number = 0
    with connected():
        while number < (count or sys.maxsize) and (count or time.monotonic() < end):
            done, outcome = one(seed + number)
            outcomes[outcome] += 1
            changes.update(done)
            number += 1
            usable()
    print(f"{number} models; {dict(outcomes.most_common())}")
    print(f"changes: {dict(changes.most_common())}")
    return outcomes, changes


if __name__ == "__main__":
    main(float(sys.argv[1]), *map(int, sys.argv[2:4]))
