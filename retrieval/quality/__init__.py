"""Quality: how well an index finds documents, and when to fit it again.

Files and folders import only what is above them: fit_drift, refit_advice, info, certified_recall,
health, refitting, near_duplicates, tuning, migration, measurable, evaluation.
"""
