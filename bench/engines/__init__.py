"""Engines: what is built from vectors and asked for the nearest; slimdex is one of them.

Files import only what is above them: engine, peer_libraries, peer_databases, engine_specs,
remote_object, engine_process, document_stores, stores, store_process, encoders, load_generator.
"""
