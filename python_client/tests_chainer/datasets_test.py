"""Chainer's datasets with the daemon's arrays: their examples are those of NumPy's arrays."""

import io
import os

import chainer
import chx
import numpy as np
import pytest
from chainer import datasets, iterators
from chainer.dataset import concat_examples, tabular

ROWS = 10


def on_host(node):
    """The same with NumPy's arrays."""
    if isinstance(node, chx.ndarray):
        return chx.to_numpy(node)
    if isinstance(node, dict):
        return {name: on_host(value) for name, value in node.items()}
    if isinstance(node, (tuple, list)):
        return type(node)(on_host(value) for value in node)
    return node


def on_device(node):
    """Whether all its arrays are the daemon's."""
    if isinstance(node, dict):
        return all(map(on_device, node.values()))
    if isinstance(node, (tuple, list)):
        return all(map(on_device, node))
    return isinstance(node, chx.ndarray)


def assert_same(ours, theirs):
    assert on_device(ours)
    np.testing.assert_equal(on_host(ours), theirs)


def pickled(x, t):
    file = io.BytesIO()
    with datasets.PickleDatasetWriter(file) as writer:
        for example in datasets.TupleDataset(x, t)[:]:
            writer.write(example)
        writer.flush()
        return datasets.PickleDataset(io.BytesIO(file.getvalue()))


def named(x, t):
    return tabular.from_data((("x", x), ("t", t)))


ORDER = [7, 0, 3, 9, 1, 8, 2, 4, 6, 5]
DATASETS = {
    "array": lambda x, t: x,
    "tuple": datasets.TupleDataset,
    "dict": lambda x, t: datasets.DictDataset(x=x, t=t),
    "sub": lambda x, t: datasets.SubDataset(datasets.TupleDataset(x, t), 2, 9),
    "sub_in_order": lambda x, t: datasets.SubDataset(x, 2, 9, ORDER),
    "split": lambda x, t: datasets.split_dataset(datasets.TupleDataset(x, t), 6, ORDER)[1],
    "split_random": lambda x, t: datasets.split_dataset_random(x, 6, seed=1)[0],
    "cross_validation": lambda x, t: datasets.get_cross_validation_datasets(x, 3)[1][0],
    "cross_validation_random": lambda x, t: datasets.get_cross_validation_datasets_random(
        datasets.TupleDataset(x, t), 3, seed=1
    )[1][1],
    "concatenated": lambda x, t: datasets.ConcatenatedDataset(x, x[:3]),
    "transform": lambda x, t: datasets.TransformDataset(
        datasets.TupleDataset(x, t), lambda example: (example[0] * 2, example[1])
    ),
    "pickle": pickled,
}
TABLES = {
    "from_data": named,
    "as_dict": lambda x, t: named(x, t).asdict(),
    "delegate": lambda x, t: tabular.DelegateDataset(named(x, t)),
    "slice": lambda x, t: named(x, t).slice[ORDER[:8], ("t", "x")],
    "concat": lambda x, t: named(x, t).concat(named(x * 2, t)),
    "join": lambda x, t: named(x, t).join(tabular.from_data(("u", x + 1))),
    "transform_table": lambda x, t: named(x, t).transform(("y",), lambda x, t: (x * 2,)),
    "transform_batch": lambda x, t: named(x, t).transform_batch(("y",), lambda x, t: (x * 2,)),
}
DATASETS.update(TABLES)


@pytest.fixture
def arrays(rng):
    return rng.normal(size=(ROWS, 3)).astype("f"), rng.integers(0, 5, ROWS).astype("i")


@pytest.mark.parametrize("name", DATASETS)
def test_examples_are_those_of_numpy(name, device, arrays):
    ours, theirs = DATASETS[name](*map(device.send, arrays)), DATASETS[name](*arrays)
    assert len(ours) == len(theirs)
    for index in (0, len(theirs) - 1, np.int64(2)):
        assert_same(ours[index], theirs[index])
    for part in (slice(1, 4), slice(None, None, -2), slice(0, 0)):
        assert_same(ours[part], theirs[part])
    if name != "pickle":  # which has no lists of examples
        assert_same(ours[[2, 1, 1]], theirs[[2, 1, 1]])


@pytest.mark.parametrize("name", DATASETS)
def test_minibatches_are_those_of_numpy(name, device, arrays):
    ours, theirs = DATASETS[name](*map(device.send, arrays)), DATASETS[name](*arrays)
    for kind in (iterators.SerialIterator, iterators.MultithreadIterator):
        makers = [kind(data, 3, repeat=False, shuffle=False) for data in (ours, theirs)]
        for a, b in zip(*makers, strict=True):
            assert_same(concat_examples(a, device), concat_examples(b))


@pytest.mark.parametrize("name", TABLES)
def test_tables_take_rows_in_the_daemon(name, device, arrays):
    ours, theirs = DATASETS[name](*map(device.send, arrays)), DATASETS[name](*arrays)
    for rows in ([5, 0, 2], slice(1, 6, 2), slice(None, None, -3), np.arange(len(theirs)) % 3 == 1):
        fetched = ours.slice[rows].fetch(), theirs.slice[rows].fetch()
        assert_same(*fetched)
        assert_same(ours.convert(fetched[0]), theirs.convert(fetched[1]))


def test_what_is_read_from_files_is_sent(device, tmp_path, arrays):
    """Text and images, by the converter."""
    image = pytest.importorskip("PIL.Image")
    pixels = np.arange(2 * 4 * 3, dtype="uint8").reshape(2, 4, 3)
    image.fromarray(pixels).save(tmp_path / "0.png")
    (tmp_path / "labels.txt").write_text("0.png 3\n0.png 1\n")
    (tmp_path / "lines.txt").write_text("one\ntwo\n", encoding="utf-8")
    images = datasets.LabeledImageDataset(str(tmp_path / "labels.txt"), str(tmp_path))
    x, t = concat_examples(images[:], device)
    assert_same([x, t], [np.stack([pixels.transpose(2, 0, 1)] * 2).astype("f"), np.array([3, 1])])
    lines = datasets.TextDataset(str(tmp_path / "lines.txt"))
    lengths = datasets.TransformDataset(lines, lambda line: np.int32(len(line)))
    assert_same(concat_examples(lengths[:], device), np.array([4, 4], "i"))
    # And what is cached, in Chainer's way.
    root = chainer.dataset.get_dataset_root()
    chainer.dataset.set_dataset_root(str(tmp_path))
    try:
        made = []

        def create(path):
            made.append(path)
            np.save(path, arrays[0])
            return device.send(arrays[0])

        path = os.path.join(chainer.dataset.get_dataset_directory("own"), "x.npy")
        for _ in range(2):
            array = chainer.dataset.cache_or_load_file(
                path, create, lambda path: device.send(np.load(path))
            )
            assert_same(array, arrays[0])
        assert len(made) == 1
    finally:
        chainer.dataset.set_dataset_root(root)
