"""Word vectors from files and folders, pooled into text vectors by `StaticEncoder`."""
