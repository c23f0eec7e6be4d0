"""What is computed of a wave: the one definition of our audio, mels, pitch, model batches."""
