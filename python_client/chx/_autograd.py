"""Gradients in Python: graphs and their ids, modes, backward and grad."""

from chx import _core


class BackpropId:
    """One of the graphs that arrays can be in, besides the default one."""

    # By number, of the graphs that are open.
    _names = {0: "<default>"}

    def __init__(self, name, number, session=None):
        self.name = name
        self._id = number
        self._session = session
        BackpropId._names[number] = name

    @property
    def context(self):
        """The context that the graph is of."""
        from chx import _context

        return _context.context_of(self._session)

    def __repr__(self):
        return self.name


def id_name(number):
    """The name of the graph of that number, "<expired>" if there is none any more."""
    return BackpropId._names.get(number, "<expired>")


def make_backprop_id(session, backprop_name):
    """A new graph of a session, until release_backprop_id."""
    return BackpropId(backprop_name, _core._new_backprop_id(session, backprop_name), session)


def release_backprop_id(session, backprop_id):
    """Ends a graph; arrays forget what they were in it. ChainerxError if it is not open."""
    _core._release_backprop_id(session, backprop_id._id)
    backprop_id.name = "<expired>"
    del BackpropId._names[backprop_id._id]


def check_backprop_id(session, backprop_id):
    """ChainerxError unless the graph is one of the session, and open."""
    _core._check_backprop_id(session, backprop_id._id)


class AnyGraph:
    """The type of anygraph."""

    _any_graph = True


#: Asks ndarray.is_backprop_required() about any graph.
anygraph = AnyGraph()


def _is_context(value):
    return isinstance(value, _core.Session) or hasattr(value, "make_backprop_id")


def _session_of(context):
    """A context's session. That of the default one is None as long as nobody has connected."""
    if context is None:
        return _core._get_default_session()
    if not _is_context(context):
        raise TypeError(f"expected a context, got {type(context).__name__}")
    return context if isinstance(context, _core.Session) else context._open()


class backprop_scope:  # , a function to its users
    """A graph of its own within a with-block, which it is given as a BackpropId."""

    def __init__(self, backprop_name, context=None):
        self._name = backprop_name
        self._context = context
        self._id = None

    def __enter__(self):
        if self._id is not None:
            raise _core.ChainerxError("a backprop scope cannot be nested or reused")
        self._session = _session_of(self._context)
        if self._session is None:
            from chx._support import connect_default

            self._session = connect_default()
        self._id = make_backprop_id(self._session, self._name)
        return self._id

    def __exit__(self, *_):
        release_backprop_id(self._session, self._id)


class _Mode:
    _record = False

    def __init__(self, context=None):
        """All graphs of a context, by default of the default one; a BackpropId; or several."""
        self._ids = None
        self._context = None
        if context is None or _is_context(context):
            self._context = context
        elif isinstance(context, BackpropId):
            self._ids = [context]
        else:
            self._ids = list(context)
            for backprop_id in self._ids:
                _check_is_id(backprop_id)

    def __enter__(self):
        for backprop_id in self._ids or ():
            _check_is_open(backprop_id)
        session = None if self._ids is not None else _session_of(self._context)
        _core._push_mode(self._record, self._ids, session)
        return self

    def __exit__(self, *_):
        _core._pop_mode()


class no_backprop_mode(_Mode):  # , a function to its users
    """Operators are not recorded within a with-block.

    That goes for the graphs of a context (without arguments: the default one), for one graph, or for
    several.
    """


class force_backprop_mode(_Mode):  # , a function to its users
    """Operators are recorded again, inside of a no_backprop_mode. Takes what that takes."""

    _record = True


def _check_is_id(value):
    if not isinstance(value, BackpropId):
        raise TypeError(f"expected a BackpropId, got {type(value).__name__}")


def _check_is_open(backprop_id):
    if backprop_id._id not in BackpropId._names:
        raise _core.ChainerxError("the backprop id has expired")


def is_backprop_required(backprop_id=None, *, context=None):
    """Whether the calling thread records operators: in a graph, or in a context's default one."""
    if backprop_id is not None and _is_context(backprop_id):
        backprop_id, context = None, backprop_id
    if backprop_id is None:
        return _core._records(None, _session_of(context))
    _check_is_id(backprop_id)
    if context is not None:
        raise TypeError("expected a BackpropId or a context, got both")
    _check_is_open(backprop_id)
    return _core._records(backprop_id, backprop_id._session)


def _scale(loss_scale):
    return 1.0 if loss_scale is None else float(loss_scale)


def backward(outputs, backprop_id=None, enable_double_backprop=False, loss_scale=None):
    """Adds d(outputs)/d(leaf) to the gradient of every array that requires one.

    Arrays outside of the graph are passed over. The graph is kept: backward can run again.

    Args:
      outputs: an array or a sequence of arrays. Each starts from its gradient, or from ones.
      backprop_id: the graph; the default one if None.
      enable_double_backprop: whether the gradients can be differentiated again.
      loss_scale: what unset gradients start from; final ones are divided by it.

    Raises:
      ChainerxError: the graph has expired, or an outer graph that it is connected to was
        backpropagated before.
    """
    if isinstance(outputs, _core.ndarray):
        outputs = [outputs]
    _core._backward(outputs, backprop_id, enable_double_backprop, _scale(loss_scale))


def grad(
    outputs,
    inputs,
    backprop_id=None,
    enable_double_backprop=False,
    set_grad=False,
    retain_grad=False,
    grad_outputs=(),
    loss_scale=None,
):
    """d(outputs)/d(inputs) as a list; None where no output depends on the input.

    Args:
      outputs, inputs: sequences of arrays.
      backprop_id: the graph; the default one if None.
      enable_double_backprop: whether the gradients can be differentiated again.
      set_grad: whether the results become the inputs' gradients, too.
      retain_grad: whether arrays between outputs and inputs keep theirs, as if they had been set.
      grad_outputs: the outputs' gradients; where there is none (or None), the one that the output
        has, or else ones.
      loss_scale: what gradients that are not given start from; final ones are divided by it.

    Raises:
      GradientError: grad_outputs don't match the outputs.
      ChainerxError: as for backward().
    """
    inputs = list(inputs)
    grads = _core._grad(
        outputs,
        inputs,
        grad_outputs,
        backprop_id,
        enable_double_backprop,
        _scale(loss_scale),
        retain_grad,
    )
    if set_grad:
        for x, gx in zip(inputs, grads, strict=True):
            if gx is not None:
                x.set_grad(gx, backprop_id)
    return grads


def as_grad_stopped(array, backprop_ids=None, copy=False):
    if isinstance(backprop_ids, bool):
        backprop_ids, copy = None, backprop_ids
    if isinstance(backprop_ids, BackpropId):
        backprop_ids = [backprop_ids]
    for backprop_id in backprop_ids or ():
        _check_is_id(backprop_id)
        _check_is_open(backprop_id)
    _core._push_mode(False, backprop_ids, None)
    try:
        return array.copy() if copy else array.view()
    finally:
        _core._pop_mode()
