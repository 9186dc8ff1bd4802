"""Import of ONNX files: chx.onnx.load."""
