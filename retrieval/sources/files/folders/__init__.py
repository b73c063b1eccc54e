"""Folders: which files of a folder are read and which are ignored.

Files import only what is above them: ignore_rules, ignored, walking.
"""
