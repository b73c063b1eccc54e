"""The collection: one folder on disk to which documents are added and which is searched.

`collection` is the public face; `writer` makes changes that `ledger` commits; searches use a
`snapshot`, which `current` provides, through `view`.
Files import only what is above them: document_file, ledger, index_files, derived_documents,
derived_words, refit_advice, folder_ids, made_up_ids, cutting, kept_vectors, staging, encoding,
snapshot, view, chance_scores, recall_trials, query_pools, metric_choice, hybrid_choice, current,
verification, info, reencoding, writer, fit_drift, certified_recall, refitting, health, targets,
settings_search, tuning, collection, repair.
"""
