"""Engines that are built from vectors and searched; slimdex is one of them."""
