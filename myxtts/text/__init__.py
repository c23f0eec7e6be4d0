"""Text as it is spoken: normalising, phonemes, tokenizers, languages. Loads no TensorFlow."""
