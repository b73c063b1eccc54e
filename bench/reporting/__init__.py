"""Reporting: rows of results become findings, tables, pictures and pages.

Files import only what is above them: findings, panels, search_tables, search_charts,
similarity_tables, similarity_charts, paper_tables, verdict, experiments, generated_tables, page.
"""
