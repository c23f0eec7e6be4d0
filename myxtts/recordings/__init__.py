"""From what people recorded to a data set: import, cut, align, transcribe, and say if it is enough.

`importer.import_recordings` makes a data folder, `folder` reads and corrects it, `script` says what
to record, `audit` what is wrong with what was recorded.
"""
