"""Reporting: rows of results become findings, tables, pictures and pages.

Files import only what is above them: findings, panels, tables, codes_tables, search_tables,
search_charts, tuning_tables, passage_tables, hybrid_tables, ray_tables, milvus_tables,
serve_tables, sweep_tables, similarity_tables, similarity_charts, paper_tables, verdict,
experiments, generated_tables, page.
"""
