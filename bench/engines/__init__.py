"""Engines: what is built from vectors and asked for the nearest; slimdex is one of them.

Files import only what is above them: engine, peers, engine_specs, remote_object, engine_process,
document_stores, store_process, load_generator.
"""
