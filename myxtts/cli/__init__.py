"""The command line: parse, check, then load TensorFlow."""
