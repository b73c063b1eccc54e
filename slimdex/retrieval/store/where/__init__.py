"""Conditions on documents: allowed SQL expressions and their time limit."""
