"""Exporters, which want the arrays of a graph. Chainer does not import them by itself."""

import chainer

import chx
from chx.chainer import _loading
from chx.chainer._routes._registry import route


class _Recording(chainer.FunctionHook):
    """A hook that does nothing: with one, functions are recorded with their arrays."""

    name = "chx.exporting"
    links_everything = True  # functions without gradients, too: files have ArgMax and such


def _adapt_caffe(caffe):
    add_blob, export = caffe._add_blob, caffe.export

    def add_fetched_blob(layer, shape, data):
        add_blob(layer, shape, chx.to_numpy(data) if isinstance(data, chx.ndarray) else data)

    def export_recorded(model, args, directory=None, export_params=True, graph_name="Graph"):
        with _Recording():
            export(model, args, directory, export_params, graph_name)

    export_recorded.__doc__ = export.__doc__
    caffe._add_blob = add_fetched_blob
    caffe.export = export_recorded


def _adapt_onnx(export):
    """onnx_chainer's own hook, which keeps what functions are given, gets another beside it."""
    hook = export.RetainInputHook
    enter, leave = hook.__enter__, hook.__exit__

    def enter_recording(self):
        self._chx_recording = _Recording()
        self._chx_recording.__enter__()
        return enter(self)

    def leave_recording(self, *details):
        try:
            leave(self, *details)
        finally:
            self._chx_recording.__exit__(*details)

    hook.__enter__, hook.__exit__ = enter_recording, leave_recording


def _adapt_onnx_names(context):
    """Names are those of addresses, so that what has a name must not go, and leave its address."""
    set_name = context.Context.set_name

    def set_name_and_keep(self, variable, name, pinned=False):
        array = variable.array if isinstance(variable, chainer.Variable) else None
        self.__dict__.setdefault("_chx_kept", []).append((variable, array))
        set_name(self, variable, name, pinned)

    context.Context.set_name = set_name_and_keep


def _adapt_wrapped_functions(replace_func):
    """A function that a node wraps calls others, which compute on the device already."""

    @route(replace_func.WrappedFunctionNode)
    def _wrapped(f, xs):
        results = f.forward(xs)
        if f.internal_results is not None:  # in the daemon's graph
            results = [y._data[0] for y in f.internal_results]
        return tuple(results)


def adapt(chainer):
    _loading.on_import_of("chainer.exporters.caffe", _adapt_caffe)
    _loading.on_import_of("onnx_chainer.context", _adapt_onnx_names)
    _loading.on_import_of("onnx_chainer.export", _adapt_onnx)
    _loading.on_import_of("onnx_chainer.replace_func", _adapt_wrapped_functions)
