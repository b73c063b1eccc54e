"""Reporting: rows of results become findings, tables, pictures and pages.

Files and folders import only what is above them: findings, tables, charts, verdict, experiments,
sections, page.
"""
