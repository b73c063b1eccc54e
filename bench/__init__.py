"""Experiments on both packages, imported by neither.

Files import only files above them: installed, datasets, pairs, vectors, layers, machine, processes,
engines, peers, methods, worker, quality, results, grid, retrieval, versus, filters, traffic,
updates, encoding, sts, reduction, findings, verdict, figures, charts, sts_charts, tables,
sts_tables, readme, report, __main__.
"""
