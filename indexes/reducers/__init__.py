"""Reducers: the moments of rows, and transformations fitted on them.

Files import only what is above them: moments, reducer, linear, training_rows, autoencoder,
flow_steps, flow, registry, layers, drift.
"""
