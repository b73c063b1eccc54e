"""Folders: which files of a folder are read and which are ignored."""
