"""Reducers: the moments of rows, and transformations fitted on them."""
