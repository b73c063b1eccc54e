"""Pages: the links of each one's figures, in a file of its name."""
