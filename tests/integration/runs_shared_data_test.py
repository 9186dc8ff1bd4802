"""Datasets that the daemon has once, and the runs of several sessions take minibatches of."""

import chx
import numpy as np
import pytest

from .daemon import wait_until
from .runs import ENDLESS, endless_step, in_another_process, make_step, problem

pytest_plugins = ["tests.integration.runs"]


def losses(x, t, start):
    step, *_ = make_step("adam", start)
    run = chx.runs.start(
        step,
        (x, t),
        batch_size=8,
        epochs=3,
        shuffle=2,
        log_every=1,
        evaluate=(lambda t: chx.mean(t), t),
    )
    assert run.wait(60).reason == "done"
    metrics = run.metrics()
    return metrics["loss"].tolist(), metrics["evaluation/loss"].tolist()


def test_a_dataset_is_there_once_for_several_sessions(daemon, rng):
    """Without its owner; runs are those of arrays of their own. So are those of another process."""
    data, targets = problem(rng)
    start = rng.normal(size=(5, 2)).astype("f")
    with chx.connect(daemon.address) as owner:
        tree = {"x": chx.array(data), "t": chx.array(targets)}
        owner.publish("data/train", tree, on_owner_exit="keep")
    found = []
    for _ in range(2):
        with chx.connect(daemon.address):
            shared = chx.lookup("data/train")
            found.append(losses(shared["x"], shared["t"], start))
    with chx.connect(daemon.address):
        found.append(losses(chx.array(data), chx.array(targets), start))
    assert found[0] == found[1] == found[2]
    out = in_another_process(
        daemon,
        """
        x = chx.lookup("data/train")["x"]
        run = runs.start(chx.jit(lambda x: chx.sum(x)), x, batch_size=60, epochs=1)
        run.wait(60)
        print(run.metrics()["loss"][0])
        session.discard()
        """,
    )
    np.testing.assert_allclose(float(out), data.sum(), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("end", ["unpublish", "close"])
def test_its_end_is_that_of_runs(daemon, end):
    """But not of those that have a copy."""
    with chx.connect(daemon.address) as owner:
        owner.publish("data/train", chx.ones((8, 4)))
        with chx.connect(daemon.address):
            shared = chx.lookup("data/train")
            runs = [
                chx.runs.start(
                    endless_step(chx.zeros((4,))), x, batch_size=2, steps=ENDLESS, name=name
                )
                for name, x in (("shared", shared), ("copied", shared.copy()))
            ]
            owner.unpublish("data/train") if end == "unpublish" else owner.close()
            with pytest.raises(chx.ChainerxError, match=r"step \d+: \[take\] the (array|session)"):
                runs[0].wait(60)
            step = runs[1].step
            assert wait_until(lambda: runs[1].step > step)
            assert runs[1].state == "running"
            runs[1].stop()
