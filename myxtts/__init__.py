"""MyXTTS trains an XTTS-style voice on one or two GPUs and keeps the training GPU busy."""

__version__ = "0.1.0"
