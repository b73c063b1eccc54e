"""Operations: build, sync, repair, and commands on an open index.

`commands` run in the process that has an index open; `address` and `service_client` find that
process.

Files import only what is above them: building, syncing, watching, commands, address,
service_client.
"""
