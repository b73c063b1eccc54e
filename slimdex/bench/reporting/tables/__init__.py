"""Tables: declared columns over the rows of experiments."""
