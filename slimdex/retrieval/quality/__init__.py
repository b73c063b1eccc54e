"""Quality: how well an index finds documents, and what to change for it to find more.

Measuring: queries (`query_pools`, `labels`), exact answers and agreement (`recall_trials`),
`evaluation`, `health`, `info`, `near_duplicates`, and another encoder (`migration`).

Choosing, by these measures: the metric (`metric_choice`) and the fusion (`hybrid_choice`), both by
`cross_fitting`; the settings (`settings_search`) that prove a target (`tuning_targets`); all of
them (`tuning`); and a new fit (`refitting`). `lint-imports` checks that measuring imports none of
these.
"""
