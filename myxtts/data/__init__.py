"""Speech data: from a folder of recordings to device-ready batches."""
