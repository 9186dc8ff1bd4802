"""Export of functions and of Chainer's models: chx.onnx.export."""
