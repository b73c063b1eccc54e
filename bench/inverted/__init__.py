"""`slimdex bench lists`.

Files import only what is above them: list_study.
"""
