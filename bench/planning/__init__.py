"""Planning: what an index will take, by laws that are fitted to the rows of the benches.

Files import only what is above them: laws, workload, observations, model, estimates, plan,
checks, telling.
"""
