"""MyXTTS trains an XTTS-style voice on one or two GPUs and keeps the training GPU busy."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"  # Keras reads it on import; another one cannot serve

__version__ = "0.1.0"
