"""Source code: functions found by their descriptions, cut by grammar or by keywords.

Files import only what is above them: trees, code_study, command.
"""
