"""Published helper names; the work is done in `myxtts.pipeline`."""
