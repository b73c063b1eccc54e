"""Cold processes: the time from a command to its answer, beside other libraries, and installation.

Files import only what is above them: peer_programs, environments, start_study.
"""
