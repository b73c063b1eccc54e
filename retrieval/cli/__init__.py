"""The command line: `slimdex`, its commands, their options, and what it prints.

`app` lists the commands; heavy modules are imported by the commands that need them.
Files and folders import only what is above them: safe_text, interrupts, errors, terminal,
progress_display, links, console, answers, reports, loss_report, options, execution, commands, app.
"""
