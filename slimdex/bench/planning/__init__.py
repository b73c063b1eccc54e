"""Planning: the requirements of an index, by the formulas of docs/plan.md."""
