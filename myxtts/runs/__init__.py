"""What a run leaves behind, and who reads it. The readers load no TensorFlow."""
