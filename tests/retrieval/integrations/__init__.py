"""Tests of what other frameworks have slimdex as."""
