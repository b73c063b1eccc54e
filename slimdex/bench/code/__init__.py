"""Source code: functions found by their descriptions, cut by grammar or by keywords."""
