"""Reporting: tables, pictures and pages from rows of results."""
