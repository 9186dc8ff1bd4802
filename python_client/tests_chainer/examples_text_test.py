"""Language models, vectors of words and translation: curves as NumPy's, memory, resuming."""

import chainer
import nltk  # noqa: F401  keeps the frames of its first import: not a test's, which has arrays
import numpy as np
import pytest
from example_runs import (
    DEVICE,
    DEVICES,
    assert_equal_weights,
    assert_same_curve,
    daemon_memory,
    load,
    read_log,
    run,
    weights,
)

HOST = chainer.get_device("@numpy")

# Stretches of a whole number of truncated backpropagations, without noise.
PTB = ("--words", 2510, "--batch-size", 10, "--bptt", 10, "--units", 32, "--dropout", 0)


def target(trainer):
    return trainer.updater.get_optimizer("main").target


def test_ptb_learns_the_same_curve(tmp_path):
    results = [run("ptb", d, tmp_path / d.strip("@"), *PTB, "--epochs", 3) for d in DEVICES]
    logs = [read_log(tmp_path / d.strip("@")) for d in DEVICES]
    keys = ["main/loss", "main/perplexity", "validation/main/loss", "validation/main/perplexity"]
    assert_same_curve(logs[1], logs[0], keys, 1e-4)
    (_, expected), (_, perplexity) = results
    np.testing.assert_allclose(perplexity, expected, rtol=1e-4)


def test_ptb_learns_with_dropout(tmp_path):
    trainer, perplexity = run("ptb", DEVICE, tmp_path, "--epochs", 4)
    assert perplexity < 8  # of 40 words, of which 3 may follow
    ptb = load("ptb")
    text = ptb.generate(target(trainer).predictor, chainer.get_device(DEVICE), 0, 200)
    seen = load("datasets").markov_text(20000, ptb.WORDS)
    follows = set(zip(seen[:-1].tolist(), seen[1:].tolist(), strict=True))
    possible = [pair in follows for pair in zip(text[:-1], text[1:], strict=True)]
    assert np.mean(possible) > 0.35  # of all pairs 3 in 40 are


@pytest.mark.parametrize("device", DEVICES)
def test_ptb_resumes(device, tmp_path):
    whole, _ = run("ptb", device, tmp_path / "whole", *PTB, "--epochs", 2)
    snapshot = tmp_path / "whole" / "trainer-1.npz"
    rest, _ = run("ptb", device, tmp_path / "rest", *PTB, "--epochs", 2, "--resume", snapshot)
    assert rest.updater.iteration == whole.updater.iteration
    assert_equal_weights(weights(target(rest)), weights(target(whole)))


def test_memory_is_flat_over_1000_truncations():
    """Each step's graph reaches back to the step before, unless it is cut."""
    ptb = load("ptb")
    device = chainer.get_device(DEVICE)
    text = load("datasets").markov_text(62000, ptb.WORDS)
    model = chainer.links.Classifier(ptb.RNN(ptb.WORDS, 32, 0.2)).to_device(device)
    model.compute_accuracy = False
    optimizer = chainer.optimizers.SGD(0.1)
    optimizer.setup(model)
    before = weights(model)
    updater = ptb.Updater(ptb.Stretches(text, 20), optimizer, 3, device)
    sizes = []
    for step in range(1, 1001):
        updater.update()
        if step % 200 == 0:
            sizes.append(daemon_memory())
    # All in one epoch: without the cut 200 steps take 80 MiB.
    assert max(sizes) - sizes[0] < 4 * 2**20, sizes
    for name, value in weights(model).items():
        assert np.isfinite(value).all() and not np.array_equal(value, before[name])


def test_evaluators_share_the_parameters_of_the_model(device):
    ptb = load("ptb")
    model = chainer.links.Classifier(ptb.RNN(ptb.WORDS, 8, 0)).to_device(device)
    copy = model.copy()
    for p, q in zip(model.params(), copy.params(), strict=True):
        p.array[...] = 0
        assert float(abs(q.array).max()) == 0
    copy.predictor(device.send(np.zeros(3, "i")))
    assert copy.predictor.lstm1.h is not None and model.predictor.lstm1.h is None


def test_word2vec_finds_the_pairs(tmp_path):
    logs = []
    for device in DEVICES:
        out = tmp_path / device.strip("@")
        _, vectors = run("word2vec", device, out)
        logs.append(read_log(out))
        nearest = load("word2vec").nearest
        for word in range(12):
            assert nearest(vectors, word)[0] == word ^ 1
    assert_same_curve(logs[1], logs[0], ["main/loss", "validation/main/loss"], 1e-4)


def test_seq2seq_reverses(tmp_path):
    """Two layers, so that there is dropout between them, from the device's generator."""
    trainer = run("seq2seq", DEVICE, tmp_path, "--layers", 2, "--epochs", 4)
    log = read_log(tmp_path)
    assert log[-1]["validation/exact"] > 0.9
    assert log[-1]["validation/bleu"] > 0.97 > log[0]["validation/bleu"] > 0
    device = chainer.get_device(DEVICE)
    sentence = device.send(np.array([5, 1, 7, 3], "i"))
    (words,) = target(trainer).translate([sentence], 8)
    assert list(words) == [3, 7, 1, 5]
    # The same weights translate on NumPy's Chainer into sentences of the same score.
    bleu = trainer.get_extension("CalculateBleu")
    local = load("seq2seq").Translator(9, 64, 2, 0.1)
    local.copyparams(bleu.model)
    bleu.model, bleu.device = local, HOST
    assert abs(bleu.score() - log[-1]["validation/bleu"]) < 0.01


def test_seq2seq_learns_the_same_curve(tmp_path):
    """One layer, which has no dropout."""
    logs = []
    for device in DEVICES:
        out = tmp_path / device.strip("@")
        run("seq2seq", device, out, "--epochs", 2, "--sentences", 600)
        logs.append(read_log(out))
    assert_same_curve(logs[1], logs[0], ["main/loss", "main/per_word"], 1e-4)
    for key in ("validation/exact", "validation/bleu"):
        assert abs(logs[1][-1][key] - logs[0][-1][key]) < 0.05
