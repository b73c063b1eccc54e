"""Evaluation: an index against labels and exact search, and what each step loses."""
