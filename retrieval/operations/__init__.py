"""Operations: build, sync, repair, diagnosis, and commands on an open index.

Files import only what is above them: language_note, finding, installation, index_state,
building, watching, commands, undoing, uploading, address.
"""
