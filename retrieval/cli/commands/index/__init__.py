"""Commands about an index: what it costs, how good it is, how it is made, whether it is whole.

Files import only what is above them: info, health, tune, distill, evaluate, reduce, words, verify,
repair.
"""
