"""Rewriting: files of all rows, made before the turn that commits them, which is then short."""
