"""`slimdex bench lists`."""
