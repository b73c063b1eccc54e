"""Cold processes, from a command to its answer, beside other libraries; and installation."""
