"""Exporters, which want the arrays of a graph. Chainer does not import them by itself."""

import chainer

import chx
from chx.chainer import _loading


class _Recording(chainer.FunctionHook):
    """A hook that does nothing: with one, functions are recorded with their arrays."""

    name = "chx.exporting"


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


def adapt(chainer):
    _loading.on_import_of("chainer.exporters.caffe", _adapt_caffe)
