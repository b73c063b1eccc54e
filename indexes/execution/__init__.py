"""Execution: processes, threads and locks; progress and times.

Files import only what is above them: progress, workers, forks, locks, timing.
"""
