"""Engines that are built from vectors and searched; slimdex is one of them.

Files import only what is above them: engine, peer_libraries, peer_databases, engine_specs,
document_stores, stores, remote_object, measured, encoder_runtimes, encoders, load_generator.
"""
