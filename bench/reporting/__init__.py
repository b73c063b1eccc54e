"""Reporting: findings, tables, pictures and pages from rows of results.

Files and folders import only what is above them: findings, tables, charts, verdict, experiments,
sections, page.
"""
