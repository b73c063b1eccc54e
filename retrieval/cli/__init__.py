"""The command line: `slimdex`. Words in, one line or table out, an exit code.

`app` has the commands; heavy modules are imported by the commands that need them.
Files import only what is above them: safe_text, errors, links, demo, console, queries, answers,
sizes, tuned, reports, options, performing, asked_sources, reading, measuring, changing, exporting,
pushing, serving, app.
"""
