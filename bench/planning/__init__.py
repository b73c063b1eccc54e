"""Planning: the requirements of an index, by the formulas of docs/plan.md.

Files import only what is above them: workload, plan, report.
"""
