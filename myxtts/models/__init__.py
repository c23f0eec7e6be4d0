"""The voice model: text, language and a reference become a mel spectrogram."""
