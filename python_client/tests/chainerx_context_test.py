"""Contexts, backends and devices, as chainerx has them."""

import copy
import pickle
import threading

import chx
import numpy as np
import pytest

DEVICES = "native:0,native:1,native:2,native:3"


@pytest.fixture(scope="module", autouse=True)
def four_devices():
    session = chx.connect(devices=DEVICES)
    yield session
    session.close()


@pytest.fixture
def defaults():
    """Takes back what a test sets."""
    before = chx.get_global_default_context()
    yield before
    chx.set_default_context(None)
    chx.set_global_default_context(before)


@pytest.fixture(scope="module")
def other():
    """A context beside the global one."""
    return chx.Context()


def in_a_thread(function):
    results = []

    def run():
        try:
            results.append(function())
        except Exception as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return results[0]


def test_identity(other):
    context = chx.get_default_context()
    backend = chx.get_backend("native")
    device = chx.get_device("native:2")
    assert chx.get_global_default_context() is context and isinstance(context, chx.Context)
    assert backend is chx.get_backend("native") is context.get_backend("native") is device.backend
    assert backend.context is device.context is context
    assert device is chx.get_device("native", 2) is context.get_device("native:2")
    assert device is context.get_device("native", 2) is backend.get_device(2)
    assert context.get_device("native") is chx.get_device("native:0")
    assert chx.zeros(2, device=device).device is device
    assert (backend.name, backend.get_device_count()) == ("native", 4)
    assert [backend.get_device(i).name for i in range(4)] == DEVICES.split(",")
    assert device != chx.get_device("native:1") and len({device, chx.get_device("native", 2)}) == 1


def test_a_context_has_its_own(other):
    backend, device = other.get_backend("native"), other.get_device("native", 1)
    assert backend is not chx.get_backend("native") and backend is other.get_backend("native")
    assert device is not chx.get_device("native:1") and device is backend.get_device(1)
    assert device.context is backend.context is other
    a, b = chx.ones(2, device=device), chx.ones(2, device="native:1")
    assert a.device is device and (a + a).device is device
    with pytest.raises(chx.ContextError):
        a + b


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("native:4",), IndexError),
        (("native", 4), IndexError),
        (("native", -1), IndexError),
        (("native:x",), ValueError),
        (("cuda",), chx.BackendError),
        (("no_such_backend:0",), chx.BackendError),
        (("",), chx.BackendError),
        ((1,), TypeError),
        (("native", "0"), TypeError),
        ((b"native",), TypeError),
    ],
    ids=repr,
)
def test_devices_that_are_not_there(other, arguments, error):
    calls = [chx.get_device, other.get_device, chx.using_device]
    for call in calls:
        with pytest.raises(error):
            call(*arguments)
    if len(arguments) == 2 and isinstance(arguments[0], str):
        with pytest.raises(error):
            chx.get_backend("native").get_device(arguments[1])


def test_backends_that_are_not_there(other):
    for get in (chx.get_backend, other.get_backend):
        for name in ("cuda", "no_such_backend", ""):
            with pytest.raises(chx.BackendError):
                get(name)


def test_devices_of_arrays():
    a = chx.array([1.0, 2.0])
    for there in (
        a.to_device("native", 3),
        a.to_device("native:3"),
        chx.array(a, device="native:3"),
    ):
        assert there.device is chx.get_device("native:3") and there.tolist() == [1.0, 2.0]
    assert a.to_device(chx.get_device("native:0")) is not a
    with pytest.raises(chx.DeviceError):
        a + there
    with pytest.raises(IndexError):
        a.to_device("native", 4)
    with pytest.raises(TypeError):
        a.to_device("native", 1, 2)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickled_devices_are_the_same(protocol):
    for name in ("native:0", "native:3"):
        device = chx.get_device(name)
        assert pickle.loads(pickle.dumps(device, protocol)) is device
        assert copy.deepcopy(device) is device and copy.copy(device) is device


@pytest.mark.parametrize("dtype", [t.__name__ for t in chx.all_dtypes])
@pytest.mark.parametrize(
    "clone", [lambda a: pickle.loads(pickle.dumps(a)), copy.deepcopy, copy.copy]
)
def test_copies_of_arrays(clone, dtype):
    values = np.array([[0, 1, 2], [3, 4, 5]]).astype(dtype)
    a = chx.array(values, device="native:1").T
    b = clone(a)
    assert type(b) is chx.ndarray and b is not a and b.device is a.device
    assert (b.dtype, b.shape) == (a.dtype, a.shape)
    np.testing.assert_array_equal(chx.to_numpy(b), values.T)
    b.fill(1)
    np.testing.assert_array_equal(chx.to_numpy(a), values.T)


def test_copies_are_outside_of_graphs():
    a = chx.array([1.0]).require_grad()
    for b in (pickle.loads(pickle.dumps(a)), copy.deepcopy(a)):
        assert not b.is_backprop_required() and a.is_backprop_required()


def test_one_copy_of_one_array():
    a = chx.ones(2)
    for clone in (copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
        first, second = clone([a, a])
        assert first is second and first is not a


def test_default_context_of_a_thread(defaults, other):
    chx.set_default_device("native:2")
    chx.set_default_context(other)
    assert chx.get_default_context() is other and chx.get_global_default_context() is defaults
    assert chx.get_default_device() is other.get_device("native:0")  # reset
    assert chx.zeros(2).device.context is other
    assert chx.get_backend("native").context is other
    assert in_a_thread(chx.get_default_context) is defaults
    chx.set_default_context(None)
    assert chx.get_default_context() is defaults
    assert chx.get_default_device() is defaults.get_device("native:0")


def test_global_default_context(defaults, other):
    chx.set_global_default_context(other)
    assert chx.get_global_default_context() is chx.get_default_context() is other
    assert in_a_thread(lambda: chx.zeros(2).device.context) is other
    chx.set_default_context(defaults)
    assert chx.get_default_context() is defaults and chx.zeros(2).device.context is defaults


def test_no_global_default_context(defaults, other):
    a = chx.ones(2)
    chx.set_global_default_context(None)
    for call in [
        chx.get_global_default_context,
        chx.get_default_context,
        chx.get_default_device,
        lambda: chx.get_device("native"),
        lambda: chx.get_backend("native"),
        lambda: chx.zeros(2),
        lambda: chx.array([1]),
    ]:
        with pytest.raises(chx.ContextError):
            call()
        assert type(in_a_thread(call)) is chx.ContextError
    assert (a + 1).tolist() == [2.0, 2.0]  # arrays know theirs
    with chx.context_scope(other):
        assert chx.zeros(2).device.context is other


def test_a_context_begins_without_defaults(defaults):
    context = chx.Context()
    chx.set_global_default_context(None)
    assert context.get_device("native:1").context is context
    with pytest.raises(chx.ContextError):
        chx.get_default_context()
    chx.set_default_context(chx.Context())
    assert chx.zeros(2).device.context is chx.get_default_context() is not context
    with pytest.raises(chx.ContextError):
        chx.get_global_default_context()
    chx.set_global_default_context(context)
    assert chx.get_global_default_context() is context


def test_context_scope(defaults, other):
    chx.set_default_device("native:1")
    with chx.context_scope(other) as scope:
        assert type(scope) is chx.ContextScope
        assert chx.get_default_context() is other
        assert chx.get_default_device() is other.get_device("native:0")
        chx.set_default_device("native:3")
        with chx.context_scope(defaults):
            assert chx.get_default_device() is defaults.get_device("native:0")
        assert chx.get_default_device() is other.get_device("native:3")
    assert chx.get_default_context() is defaults
    assert chx.get_default_device() is defaults.get_device("native:1")
    with pytest.raises(KeyError), scope:
        raise KeyError
    assert chx.get_default_context() is defaults


def test_only_contexts_are_contexts(defaults):
    for call in (chx.set_default_context, chx.set_global_default_context, chx.context_scope):
        with pytest.raises(TypeError):
            call("native")


def test_default_device(defaults):
    device = chx.get_device("native:2")
    for name in ("native:2", device):
        chx.set_default_device(name)
        assert chx.get_default_device() is device and chx.get_device() is device
        assert chx.ones(1).device is chx.array([1]).device is device
        assert in_a_thread(chx.get_default_device) is chx.get_device("native:0")
    for wrong, error in [("native:4", IndexError), ("none", chx.BackendError), (1, TypeError)]:
        with pytest.raises(error):
            chx.set_default_device(wrong)
    assert chx.get_default_device() is device


def test_using_device(defaults):
    before, device = chx.get_default_device(), chx.get_device("native:1")
    for arguments in [("native:1",), (device,), ("native", 1)]:
        with chx.using_device(*arguments) as scope:
            assert type(scope) is chx.DeviceScope and scope.device is device
            assert chx.get_default_device() is device
            with chx.using_device("native:2"):
                assert chx.get_default_device().name == "native:2"
            assert chx.get_default_device() is device
        assert chx.get_default_device() is before
        with scope, scope:  # again
            assert chx.get_default_device() is device
        assert chx.get_default_device() is before
    with pytest.raises(KeyError), scope:
        raise KeyError
    assert chx.get_default_device() is before


def test_default_context_of_a_closed_session():
    session = chx.connect(devices=DEVICES)
    previous = chx.get_default_context()
    session.close()
    uses = (
        lambda: chx.zeros(2),
        chx.get_default_context,
        lambda: previous.get_device("native"),
        lambda: chx.get_device("native"),
    )
    for use in uses:
        with pytest.raises(ConnectionError, match="closed"):
            use()
    again = chx.connect(devices=DEVICES)
    assert chx.zeros(2).device.context is chx.get_default_context()
    assert chx.get_default_device() is again.devices[0]


def test_backprop_ids_of_a_context(other):
    for context in (chx.get_default_context(), other):
        backprop_id = context.make_backprop_id("mine")
        assert backprop_id.name == "mine" and type(backprop_id) is chx.BackpropId
        assert backprop_id.context is context
        context._check_valid_backprop_id(backprop_id)
        x = chx.array([3.0], device=context.get_device("native")).require_grad(backprop_id)
        (x * x).backward(backprop_id)
        assert x.get_grad(backprop_id).tolist() == [6.0]
        context.release_backprop_id(backprop_id)
        assert backprop_id.name == repr(backprop_id) == "<expired>"
        for call in (context.release_backprop_id, context._check_valid_backprop_id):
            with pytest.raises(chx.ChainerxError):
                call(backprop_id)


def test_graphs_are_of_one_context(other):
    context = chx.get_default_context()
    backprop_id = context.make_backprop_id("mine")
    for call in (other.release_backprop_id, other._check_valid_backprop_id):
        with pytest.raises(chx.ChainerxError):
            call(backprop_id)
    with chx.backprop_scope("theirs", other) as theirs:
        assert theirs.context is other
        with pytest.raises(chx.ChainerxError):
            chx.ones(2).require_grad(theirs)
    context._check_valid_backprop_id(backprop_id)
    context.release_backprop_id(backprop_id)
    with chx.context_scope(other), chx.backprop_scope("theirs") as theirs:
        assert theirs.context is other
    with chx.no_backprop_mode(other):
        assert chx.is_backprop_required() and not chx.is_backprop_required(context=other)
    with chx.context_scope(other), chx.no_backprop_mode():
        assert not chx.is_backprop_required()
        assert chx.is_backprop_required(context=context)
