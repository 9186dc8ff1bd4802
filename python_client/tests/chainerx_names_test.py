"""What ChainerX has and chx.chainerx does not have yet."""

import inspect

import chx
import numpy as np
import pytest
from chx import chainerx

ROUTINES = """
array asarray ascontiguousarray empty full zeros ones arange empty_like full_like zeros_like
ones_like copy frombuffer identity eye diag diagflat linspace tri tril triu meshgrid
accuracy take where nonzero
dot linalg.solve linalg.inv linalg.svd linalg.pinv linalg.qr linalg.cholesky linalg.eigh
linalg.eigvalsh linalg._is_lapack_available
equal not_equal greater greater_equal less less_equal logical_and logical_or logical_not logical_xor
all any isnan isinf isfinite
transpose flip fliplr flipud ravel rollaxis reshape squeeze expand_dims swapaxes repeat broadcast_to
concatenate stack atleast_2d atleast_3d hstack vstack dstack split dsplit vsplit hsplit moveaxis
copyto
clipped_relu crelu elu sigmoid relu leaky_relu tree_lstm slstm softplus
negative add subtract multiply divide floor_divide true_divide reciprocal power remainder mod fmod
bitwise_and bitwise_or bitwise_xor
erf exp expm1 exp2 log log10 log2 log1p sinh cosh tanh arcsinh arccosh
square sqrt abs absolute fabs sign maximum minimum
sum logsumexp log_softmax softmax cumsum nansum ceil floor
sin cos tan arcsin arccos arctan arctan2 left_shift right_shift
argmax argmin count_nonzero nanargmax nanargmin amax max amin min mean var
conv conv_transpose linear lstm batch_norm fixed_batch_norm max_pool average_pool
absolute_error squared_error gaussian_kl_divergence huber_loss sigmoid_cross_entropy
softmax_cross_entropy hinge
n_step_lstm n_step_bilstm n_step_gru n_step_bigru n_step_rnn n_step_birnn
"""
OTHERS = """
asanyarray fromfile fromfunction fromiter fromstring loadtxt clip random.normal random.uniform fix
broadcast_arrays copysign to_numpy
backward grad check_backward check_double_backward no_backprop_mode force_backprop_mode
is_backprop_required backprop_scope
get_backend get_device get_default_context set_default_context get_global_default_context
set_global_default_context context_scope get_default_device set_default_device using_device
is_available
ndarray Device Backend Context BackpropId AnyGraph BackpropScope ContextScope DeviceScope
NoBackpropMode ForceBackpropMode
ChainerxError ContextError BackendError DeviceError DimensionError DtypeError NotImplementedError
GradientError GradientCheckError
Inf Infinity NAN NINF NZERO NaN PINF PZERO e euler_gamma inf infty nan newaxis pi dtype bool_ int8
int16 int32 int64 uint8 float16 float32 float64 all_dtypes bool int float anygraph
testing.assert_allclose testing.assert_array_equal testing.assert_allclose_ex
testing.assert_array_equal_ex testing.numpy_chainerx_allclose testing.numpy_chainerx_array_equal
testing.ignore testing.parametrize_dtype_specifier testing.all_dtypes testing.float_dtypes
testing.integral_dtypes testing.signed_integral_dtypes testing.nonfloat_dtypes
testing.numeric_dtypes testing.signed_dtypes testing.unsigned_dtypes testing.array testing.helper
testing._DeviceBuffer testing._fromnumpy
_core._function_node_forward _core._fromrawpointer _to_cupy _core.Context _core._is_debug
_global_context _available _build_info.build_chainerx _cuda.cupy_share_allocator
_device._recover_device _fallback_workarounds _ndarray _docs
"""
MEMBERS = """
item view astype copy fill take transpose ravel reshape squeeze swapaxes repeat dot flatten sum max
min mean var all any argmax argmin require_grad is_grad_required is_backprop_required get_grad
set_grad cleargrad backward to_device as_grad_stopped clip tolist
grad T data_ptr data_size device dtype is_contiguous itemsize nbytes ndim offset shape size strides
__eq__ __ne__ __gt__ __ge__ __lt__ __le__ __neg__ __abs__
__add__ __radd__ __iadd__ __sub__ __rsub__ __isub__ __mul__ __rmul__ __imul__ __truediv__
__rtruediv__ __itruediv__ __floordiv__ __rfloordiv__ __ifloordiv__ __mod__ __rmod__ __imod__ __pow__
__rpow__ __and__ __rand__ __iand__ __or__ __ror__ __ior__ __xor__ __rxor__ __ixor__ __lshift__
__rlshift__ __ilshift__ __rshift__ __rrshift__ __irshift__ __remainder__ __rremainder__
__iremainder__ __len__ __bool__ __int__ __float__ __repr__ __getitem__ __setitem__
__array_priority__ _debug_data_memory_address _debug_flat_data _debug_dump_computational_graph
_is_chained
"""


def find(root, name):
    """The attribute by a dotted name, or None."""
    for part in name.split("."):
        root = getattr(root, part, None)
    return root


def missing(root, names):
    # newaxis is None.
    return {n for n in names.split() if find(root, n) is None and n != "newaxis"}


@pytest.fixture(scope="module", autouse=True)
def installed():
    return chx.install_chainerx()


def test_nothing_is_missing():
    assert not missing(chainerx, ROUTINES)
    assert not missing(chainerx, OTHERS)
    # dir() leaves out what every class has, such as __or__.
    assert not set(MEMBERS.split()) - set(dir(chainerx.ndarray))
    assert chainerx.newaxis is None


def test_routines_can_be_called():
    for name in ROUTINES.split():
        function = find(chainerx, name)
        assert function is None or callable(function), name


@pytest.mark.parametrize(
    "signature",
    [
        "array(object, dtype=None, copy=True, device=None)",
        "asarray(object, dtype=None, device=None)",
        "asanyarray(a, dtype=None, device=None)",
        "ascontiguousarray(a, dtype=None, device=None)",
        "empty_like(a, device=None)",
        "full_like(a, fill_value, device=None)",
        "zeros_like(a, device=None)",
        "ones_like(a, device=None)",
        "frombuffer(buffer, dtype='float32', count=-1, offset=0, device=None)",
        "fromfile(file, dtype=float, count=-1, sep='', device=None)",
        "fromiter(iterable, dtype, count=-1, device=None)",
        "fromstring(string, dtype=float, count=-1, sep='', device=None)",
        "loadtxt(fname, dtype=float, comments='#', delimiter=None, converters=None, skiprows=0, "
        "usecols=None, unpack=False, ndmin=0, encoding='bytes', device=None)",
        "clip(a, a_min, a_max)",
        "fix(a)",
        "to_numpy(array, copy=True)",
        "split(ary, indices_or_sections, axis=0)",
        "is_available()",
        "get_backend(name)",
        "get_default_context()",
        "get_global_default_context()",
        "get_default_device()",
        "testing.assert_allclose(x, y, rtol=1e-07, atol=0, equal_nan=True, err_msg='', verbose=True)",
        "testing.assert_array_equal(x, y, err_msg='', verbose=True)",
        "testing.ignore()",
        "testing.parametrize_dtype_specifier(argname, dtypes=None, additional_args=None)",
    ],
)
def test_signatures(signature):
    name = signature.partition("(")[0]
    found = inspect.signature(find(chainerx, name))
    parameters = [p.replace(annotation=p.empty) for p in found.parameters.values()]
    text = str(inspect.Signature(parameters))
    assert name + text.replace("<class 'float'>", "float") == signature


def test_aliases_are_the_same_objects():
    for name, alias in [
        ("abs", "absolute"),
        ("amax", "max"),
        ("amin", "min"),
        ("remainder", "mod"),
    ]:
        first, second = find(chainerx, name), find(chainerx, alias)
        assert first is second, name


def test_constants_are_numpys():
    for name in "Inf Infinity NAN NaN PINF e euler_gamma inf infty nan newaxis pi".split():
        if hasattr(np, name):
            assert getattr(chainerx, name) is getattr(np, name)
    for name in "NINF NZERO PZERO".split():
        if hasattr(np, name):
            assert getattr(chainerx, name) is getattr(np, name)
    assert (
        -np.inf == chainerx.NINF and np.signbit(chainerx.NZERO) and not np.signbit(chainerx.PZERO)
    )


def test_dtypes_are_numpys():
    names = "bool_ int8 int16 int32 int64 uint8 float16 float32 float64".split()
    assert chainerx.all_dtypes == tuple(getattr(np, name) for name in names)
    for name in ["dtype", *names]:
        assert getattr(chainerx, name) is getattr(np, name)
    assert (chainerx.bool, chainerx.int, chainerx.float) == (bool, int, float)
    assert chainerx.zeros(2, chainerx.int).dtype == np.int64


def test_errors_are_no_subclasses_of_one_another():
    names = """ChainerxError ContextError BackendError DeviceError DimensionError DtypeError
        NotImplementedError GradientError GradientCheckError"""
    builtin = {"DimensionError": ValueError, "DtypeError": TypeError}  # docs/chainerx.md
    for name in names.split():
        assert getattr(chainerx, name).__bases__ == (builtin.get(name, Exception),), name
