"""`slimdex bench migrate`: queries of one encoder over documents of another."""
