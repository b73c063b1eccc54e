"""Execution: processes, threads and locks; progress and times."""
