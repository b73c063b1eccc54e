"""Operations: build, sync, repair, diagnosis, and commands on an open index."""
