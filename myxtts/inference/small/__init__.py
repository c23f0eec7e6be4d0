"""Speaking without TensorFlow: an ONNX export, run by onnxruntime and NumPy."""
