"""Functions of chx.jit that processes publish, and others call, through a real daemon."""

from __future__ import annotations

import os
import subprocess

import chx
import numpy as np
import pytest

from .daemon import Daemon, wait_until
from .processes import Process, error_of

WIDTH = 64


@pytest.fixture(scope="module")
def daemon():
    with Daemon("--lease=1s", "--session-memory=256MiB") as daemon:
        yield daemon


def mlp(seed=0):
    """Weights of two layers, and a function that predicts by them."""
    rng = np.random.default_rng(seed)
    w1 = chx.array(rng.normal(size=(WIDTH, WIDTH)).astype("float32")).require_grad()
    b1 = chx.array(rng.normal(size=WIDTH).astype("float32")).require_grad()
    w2 = chx.array(rng.normal(size=(WIDTH, 10)).astype("float32")).require_grad()

    @chx.jit
    def predict(x):
        hidden = chx.relu(x @ w1 + b1)
        scores = chx.log_softmax(hidden @ w2)
        return {"scores": scores, "best": chx.argmax(scores, axis=1)}

    return [w1, b1, w2], predict


HOLDER = """
    predict = chx.lookup(hear())
    x = chx.array(np.random.default_rng(1).normal(size=(4, 64)).astype("float32"))
    def call():
        found = predict(x)
        say(chx.to_numpy(found["scores"]).tobytes().hex(), chx.to_numpy(found["best"]).tolist())
    while True:
        word = hear()
        if word == "call":
            call()
        elif word == "repeat":
            found = predict.repeat(50, x)
            say(chx.to_numpy(found["scores"]).tobytes().hex())
        elif word == "read":
            try:
                call()
            except chx.ContextError as error:
                say(str(error).splitlines()[0])
"""


def test_another_process_gets_what_the_owner_gets(daemon):
    with chx.connect(daemon.address) as session, Process(daemon.address, HOLDER) as other:
        weights, predict = mlp()
        values = np.random.default_rng(1).normal(size=(4, WIDTH)).astype("float32")
        x = chx.array(values)
        assert session.publish("mlp/predict", predict, x) == 1
        other.say("mlp/predict")

        def expected():
            w1, b1, w2 = weights
            eager = chx.log_softmax(chx.relu(x @ w1 + b1) @ w2)
            own = predict(x)
            assert (chx.to_numpy(own["scores"]) == chx.to_numpy(eager)).all()
            best = chx.to_numpy(own["best"]).tolist()
            return f"{chx.to_numpy(own['scores']).tobytes().hex()} {best}"

        for _ in range(3):  # by commands, then by plans
            other.say("call")
            assert other.hear() == expected()
        other.say("repeat")
        assert other.hear() == expected().split()[0]
        # What the owner writes is there in the next call.
        with chx.no_backprop_mode():
            for w in weights:
                w *= 0.5
        session.synchronize()
        other.say("call")
        assert other.hear() == expected()
        session.unpublish("mlp/predict")
        other.say("read")
        assert "[run_program] the program is not published any more" in other.hear()
        with chx.connect(daemon.address) as late:
            assert "expects a name that is published" in error_of(
                lambda: chx.lookup("mlp/predict", session=late)
            )


def test_an_owner_that_trains_by_recorded_steps_is_seen_between_them(daemon):
    holder = """
        predict = chx.lookup("pair")
        x = chx.zeros(1, "float32")
        say("ready")
        hear()
        worst = 0.0
        for _ in range(300):
            worst = max(worst, float(predict(x)))
        say(worst)
    """
    with chx.connect(daemon.address) as session:
        a, b = chx.zeros(1 << 15, "float32"), chx.zeros(1 << 15, "float32")

        @chx.jit
        def both(x):
            return chx.amax(chx.absolute(a - b)) + x[0]

        @chx.jit
        def step():
            nonlocal a, b
            a += 1
            b += 1

        x = chx.zeros(1, "float32")
        session.publish("pair", both, x)
        step()
        with Process(daemon.address, holder) as first, Process(daemon.address, holder) as second:
            for other in (first, second):
                assert other.hear() == "ready"
                other.say()
            for _ in range(200):
                step.repeat(10)
                session.synchronize()
            assert (first.hear(), second.hear()) == ("0.0", "0.0")
        assert float(a[0]) == 2001


def test_memory_is_counted_once_and_the_holders_quota_holds(daemon):
    with chx.connect(daemon.address) as session:
        big = chx.ones((2048, 2048), "float32")  # 16 MiB

        @chx.jit
        def total(x):
            return big * x

        x = chx.ones((), "float32")
        session.publish("big", total, x)
        with chx.connect(daemon.address) as holder:
            y = chx.ones((), "float32", device=holder.devices[0])
            call = chx.lookup("big", session=holder)
            # 256 MiB have room for 15 results, and not for 17.
            results = [call(y) for _ in range(14)]
            assert float(results[-1][0, 0]) == 1
            results += [call(y) for _ in range(4)]
            with pytest.raises(chx.OutOfMemoryError):
                float(results[-1][0, 0])
            assert float(total(x)[0, 0]) == 1  # the owner has its own


def test_several_shapes_trees_and_what_is_wrong_with_arguments(daemon):
    with chx.connect(daemon.address) as session:
        w = chx.full(3, 2, "float32")

        @chx.jit
        def scale(batch, *, power=1):
            x, [y] = batch["x"], batch["rest"]
            return [(x * w) ** power, (y, "done", None, 1.5)]

        def batch(rows, device=None):
            x = chx.ones((rows, 3), "float32", device=device)
            return {"x": x, "rest": [x * 3]}

        with pytest.raises(ValueError, match="has been called in this session"):
            session.publish("scale", scale)
        for rows in (1, 2):
            scale(batch(rows))
        scale(batch(2), power=2)
        assert session.publish("scale", scale) == 1
        with pytest.raises(TypeError, match="a function of chx.jit only"):
            session.publish("arrays", w, w)
        with chx.connect(daemon.address) as holder:
            device = holder.devices[0]
            found = chx.lookup("scale", session=holder)
            assert isinstance(found, chx.PublishedProgram)
            assert len(found.signatures) == 3
            result, (y, word, none, number) = found(batch(2, device), power=2)
            assert chx.to_numpy(result).tolist() == [[4.0] * 3] * 2
            assert (chx.to_numpy(y)[0, 0], word, none, number) == (3, "done", None, 1.5)
            assert chx.to_numpy(found(batch(1, device))[0]).tolist() == [[2.0] * 3]
            # One array in two places is fine, where two were published.
            x = chx.ones((1, 3), "float32", device=device)
            assert float(found({"x": x, "rest": [x]})[1][0][0, 0]) == 1
            for args, kwargs in (
                ((batch(3, device),), {}),
                ((batch(2, device), 1), {}),
                ((batch(2, device),), {"power": 3}),
                (({"x": x, "rest": (x,)},), {}),
                (({"x": x.astype("float64"), "rest": [x]},), {}),
                ((), {}),
            ):
                with pytest.raises(TypeError, match=r"expects scale\(\{'x': float32\(1, 3\)"):
                    found(*args, **kwargs)
            assert "multiply" in found.explain()
            assert "scale(" in repr(found)

            @chx.jit
            def nested(x):
                return found({"x": x, "rest": [x]})

            with pytest.raises(chx.NotImplementedError, match="call of a published program"):
                nested(x)


def test_what_changes_the_owner_is_refused_with_what_to_do(daemon):
    with chx.connect(daemon.address) as session:
        w = chx.ones(3, "float32").require_grad()
        x = chx.ones(3, "float32")
        optimizer = chx.optimizers.SGD(lr=0.1).setup([w])

        @chx.jit
        def train(x):
            optimizer.cleargrads()
            loss = chx.sum(x * w)
            loss.backward()
            optimizer.update()
            return loss

        @chx.jit
        def drop(x):
            return chx.random.normal(size=3, dtype="float32") + x

        @chx.jit
        def gradient(x):
            return chx.grad([chx.sum(x * w * w)], [w])[0]

        chx.distributed.init(0, 1, session=session)

        @chx.jit
        def reduced(x):
            return chx.distributed.all_reduce(x)

        @chx.jit
        def scaled(x, rate):
            return x * rate

        @chx.jit
        def saliency(x):
            y = x.copy().require_grad()
            return chx.grad([chx.sum(y * y * fixed)], [y])[0]

        fixed = w.as_grad_stopped()
        for function, message in (
            (drop, "random numbers: pass an array of random numbers"),
            (gradient, "gradients of arrays that it captures: let it capture"),
            (reduced, "exchanges arrays with the ranks of a process group: call collectives"),
        ):
            with pytest.raises(ValueError, match=message):
                session.publish("refused", function, x)
        with pytest.raises(ValueError, match="numbers that vary|writes to"):
            session.publish("refused", train, x)
        with pytest.raises(TypeError, match="no floats among the arguments.*chx.array"):
            session.publish("refused", scaled, x, 0.5)
        assert chx.names("refused") == []
        # Gradients of its own arguments are its own affair.
        session.publish("saliency", saliency, x)
        with chx.connect(daemon.address) as holder:
            y = chx.full(3, 4, "float32", device=holder.devices[0])
            found = chx.lookup("saliency", session=holder)(y)
            assert chx.to_numpy(found).tolist() == chx.to_numpy(2 * 4 * fixed).tolist()


@pytest.mark.parametrize("end", ["keep", "drop"])
def test_the_owners_end(daemon, end):
    owner = f"""
        w = chx.full(64, 2, "float32")
        f = chx.jit(lambda x: x["scores"] + w)
        session.publish("end/{end}", f, {{"scores": chx.zeros(64, "float32")}}, on_owner_exit="{end}")
        say("published")
        hear()
    """
    with chx.connect(daemon.address) as holder, Process(daemon.address, owner) as other:
        assert other.hear() == "published"
        found = chx.lookup(f"end/{end}")
        x = {"scores": chx.ones(64, "float32")}
        assert float(found(x)[0]) == 3
        other.kill()
        if end == "drop":
            wait_until(lambda: chx.names("end/drop") == [])
            message = error_of(lambda: float(found(x)[0]))
            assert "the session that published this program has ended" in message
        else:
            assert float(found(x)[0]) == 3
            holder.unpublish("end/keep")


def test_methods_and_several_versions(daemon):
    class Model:
        def __init__(self, scale):
            self.w = chx.full(2, scale, "float32")

        @chx.jit
        def __call__(self, x):
            return x * self.w

    with chx.connect(daemon.address) as session:
        x = chx.ones(2, "float32")
        for scale in (2, 3):
            model = Model(scale)
            assert session.publish("versions", model.__call__, x) == scale - 1
        with chx.connect(daemon.address) as holder:
            y = chx.ones(2, "float32", device=holder.devices[0])
            assert float(chx.lookup("versions", session=holder)(y)[0]) == 3
            assert float(chx.lookup("versions", version=1, session=holder)(y)[0]) == 2
            assert [(n.version, n.arrays) for n in chx.names("versions", holder)] == [
                (1, 1),
                (2, 1),
            ]


def test_after_a_restart_it_is_looked_up_again(tmp_path):
    flags = (f"--state-dir={tmp_path}/state", "--lease=1h")
    daemon = Daemon(*flags)
    try:
        owner = chx.connect(daemon.address, session="owner")
        w = chx.full(3, 2, "float32")
        predict = chx.jit(lambda x: x * w)
        x = chx.ones(3, "float32")
        owner.publish("restarted", predict, x)
        holder = chx.connect(daemon.address, session="holder")
        y = chx.ones(3, "float32", device=holder.devices[0])
        found = chx.lookup("restarted", session=holder)
        assert float(found(y)[0]) == 2
        daemon.process.terminate()
        assert daemon.process.wait(60) == 0
        again = Daemon(*flags, listen=daemon.address)
        try:
            message = error_of(lambda: float(found(y)[0]))
            assert "the program is another session's" in message and "look it up again" in message
            # Names are the daemon's that has ended.
            with pytest.raises(ValueError, match="call it once"):
                owner.publish("restarted", predict)
            assert float(predict(x)[0]) == 2
            owner.publish("restarted", predict)
            assert float(chx.lookup("restarted", session=holder)(y)[0]) == 2
            holder.close()
            owner.close()
        finally:
            again.kill()
    finally:
        daemon.kill()


def test_a_structure_that_is_made_up_is_no_harm(daemon):
    with chx.connect(daemon.address) as session:
        w = chx.ones(2, "float32")
        f = chx.jit(lambda x: x + w)
        x = chx.ones(2, "float32")
        f(x)
        program = next(iter(f._recorded.values())).program
        deep = '{"list": [' * 5000 + "]}" * 5000
        for structure in (
            "{",
            "[]",
            '{"programs": []}',
            '{"programs": [{"arguments": {"array": 7}, "result": {"array": 0}}]}',
            '{"programs": [{"arguments": {"array": 0}, "result": {"array": 0}}]}',
            '{"programs": [{"arguments": {"value": [1]}, "result": {"array": 0}}]}',
            '{"programs": [{"arguments": ' + deep + ', "result": {"array": 0}}]}',
        ):
            chx._core._publish_programs(session, "made-up", [program], [], False, structure)
            with pytest.raises(chx.ContextError, match="that publish\\(\\) has described"):
                chx.lookup("made-up")
        chx._core._publish_programs(session, "made-up", [program], [], False, "")
        assert chx.to_numpy(chx.lookup("made-up")(x)).tolist() == [2, 2]


def test_a_c_program_calls_what_python_publishes_and_the_other_way_round(daemon):
    with chx.connect(daemon.address) as session:
        weights, predict = mlp(3)
        x = chx.full((4, WIDTH), 0.25, "float32")
        session.publish("for-cpp/predict", predict, x)
        program = subprocess.Popen(
            [os.environ["PUBLISHED_PROGRAM"], daemon.address, "for-cpp/predict", "from-cpp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert program.stdout is not None
        values = [float(program.stdout.readline()) for _ in range(40)]
        assert values == chx.to_numpy(predict(x)["scores"]).reshape(-1).tolist()
        found = chx.lookup("from-cpp")
        assert float(found(chx.full((), 20, "float32"))) == 41
        assert chx.to_numpy(found(chx.full(2, 20, "float32"))).tolist() == [41, 41]
        program.communicate("\n")
        assert program.returncode == 0
        assert len(weights) == 3
