"""`slimdex bench migrate`: queries of one encoder over documents of another.

Files import only what is above them: migration_study, moving_study, command.
"""
