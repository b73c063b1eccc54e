"""Experiments on both packages, imported by neither."""

if __name__ != "slimdex.bench":
    raise ImportError("bench is a folder of slimdex: import slimdex.bench")
