"""The collection: one folder on disk to which documents are added and which is searched.

`collection` is what users see of an `open_index`; `writer` changes what `ledger` commits,
`snapshot` is what is searched, `current` says which, and `view` answers.
Files import only what is above them: document_file, ledger, index_files, derived_documents,
derived_words, refit_advice, folder_ids, made_up_ids, cutting, kept_vectors, staging, encoding,
snapshot, view, chance_scores, recall_trials, query_pools, metric_choice, hybrid_choice, current,
open_index, verification, info, writer, reencoding, fit_drift, certified_recall, refitting, adding,
health, targets, settings_search, tuning, repair, collection.
"""
