"""Persian read as a native reader reads it: numbers in words, short vowels, ezafe."""
