"""Export of rows, of an encoder with its reducer, or of a map, for other programs."""
