"""Runs with data in files whose daemon is another one: whether they may read them, and find the same."""

import os
import re
import shutil

import chx
import numpy as np
import pytest

from .daemon import Keeper, wait_until
from .runs import ENDLESS, NAME, endless_step
from .tenants import VISION, TenantsFile, by_token


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@pytest.fixture
def keepers():
    """keepers(...) -> a Keeper, whose daemon ends with the test."""
    made = []

    def keep(*args):
        made.append(Keeper(*args))
        return made[-1]

    yield keep
    for each in made:
        each.daemon.kill()


def start(x, name="run", **options):
    w = chx.zeros((4,))
    run = chx.runs.start(endless_step(w), x, batch_size=2, steps=ENDLESS, name=name, **options)
    return w, run


def ended(run):
    """The end of a run that could not go on, in a session that does."""
    event = run.wait(60)
    assert event.reason == "daemon" and "the run cannot go on" in event.message
    assert chx.ones(3).sum().item() == 3
    return event.message


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("where", ["step", "evaluation"])
def test_a_tenant_may_not_read_files_any_more(root, tmp_path, keepers, paused, where):
    """Its runs that read files end, whether they were paused or not; others of its go on."""
    np.save(root / "x.npy", np.ones((8, 4), "f"))
    tenants = TenantsFile(tmp_path / "tenants.yaml", vision=by_token(VISION))
    keeper = keepers(tmp_path, "--lease=1h", f"--data-root={root}", tenants.flag)
    session = chx.connect(keeper.address, token=VISION, session=NAME)
    file, arrays = chx.runs.files("x.npy")["x"], chx.ones((8, 4))
    options = {}
    if where == "evaluation":
        options["evaluate"] = (lambda x: chx.sum(x), file)
    w, run = start(file if where == "step" else arrays, **options)
    _, other = start(arrays, "other")
    session.save("w", w)
    assert wait_until(lambda: run.step > 10)
    if paused:
        run.pause()
    keeper.terminate()
    tenants.write(vision=by_token(VISION, features=["shared_names", "snapshots"]))
    keeper.start()
    assert "data_files" in ended(run)
    last = run.step
    assert run.events()[-1].step == last
    if where == "step":  # 2 of each column in each
        assert chx.to_numpy(session.load("w")).tolist() == [2 * last] * 4
    assert wait_until(lambda: other.step > 10 and other.state == "running")
    with pytest.raises(Exception, match="data_files"):
        start(file)
    # Nothing of it is left: the feature is there again, and so may be a run.
    keeper.terminate()
    tenants.write(vision=by_token(VISION))
    keeper.start()
    _, again = start(file)
    assert wait_until(lambda: again.step > 10)
    session.discard()
    session.close()


def same_times(path, other):
    """Has a file's times those of another one."""
    status = os.stat(other)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


CHANGES = {
    "size": "has changed since the run has begun",
    "time": "has changed since the run has begun",
    "another file": "has changed since the run has begun",
    "shape": "to be float32\\(8, 4\\), as it was when the run began, got float32\\(4, 8\\)",
    "dtype": "to be float32\\(8, 4\\), as it was when the run began, got int32\\(8, 4\\)",
    "name": "has no array 'x'",
    "gone": "no such file below --data-root",
    "link": "cannot be opened|without links|regular file",
    "no folder": "a daemon with --data-root",
}


@pytest.mark.parametrize("change", list(CHANGES))
@pytest.mark.parametrize("kill", [False, True])
def test_a_file_is_another_one(root, tmp_path, keepers, change, kill):
    """Also where it has the size and the time of the former one; after kill -9, too."""
    path = root / "x.npz"
    x = np.arange(32, dtype="f").reshape(8, 4)
    np.savez(path, x=x)
    keeper = keepers(tmp_path, "--lease=1h", f"--data-root={root}")
    session = chx.connect(keeper.address, session=NAME)
    w, run = start(chx.runs.files("x.npz")["x"], evaluate=(lambda x: chx.sum(x), chx.ones((4, 4))))
    session.save("w", w)
    assert wait_until(lambda: run.step > 10)
    with chx.admin.connect(keeper.address) as admin:
        admin.snapshot()
    keeper.daemon.kill() if kill else keeper.terminate()
    before = tmp_path / "before.npz"
    shutil.copy2(path, before)
    other = {"shape": {"x": x.reshape(4, 8)}, "dtype": {"x": x.astype("i4")}, "name": {"y": x}}
    if change in other:  # in place, and as if nothing had happened
        np.savez(tmp_path / "other.npz", **other[change])
        content = (tmp_path / "other.npz").read_bytes()
        path.write_bytes(content)
        assert len(content) == before.stat().st_size
        same_times(path, before)
    elif change == "another file":
        np.savez(tmp_path / "other.npz", x=x + 1)
        same_times(tmp_path / "other.npz", path)
        (tmp_path / "other.npz").rename(path)
    elif change == "size":
        np.savez(path, x=x, more=x)
        same_times(path, before)
    elif change == "time":
        os.utime(path, (1, 1))
    elif change in ("gone", "link"):
        path.unlink()
        if change == "link":
            path.symlink_to(before)
    else:
        keeper.flags = keeper.flags[:-1]
    keeper.start()
    if kill:
        session = chx.connect(keeper.address, session=NAME)
        run = chx.runs.attach()
    message = ended(run)
    assert re.search(CHANGES[change], message), message
    # As the last step of the snapshot has left it.
    total = np.array(chx.to_numpy(session.load("w")), dtype="f8")
    epochs, rest = divmod(run.step, 4)
    assert total.tolist() == (epochs * x.sum(0) + x[: 2 * rest].sum(0)).tolist()
    session.discard()
    session.close()
