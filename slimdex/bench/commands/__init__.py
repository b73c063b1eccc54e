"""Commands of `slimdex bench`, a file for each or two, and `slimdex plan`."""
