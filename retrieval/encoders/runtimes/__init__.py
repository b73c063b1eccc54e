"""Runtimes: networks run by OpenVINO or torch, converted once and kept.

Files import only what is above them: openvino_library, cache, processor, streams, openvino_runtime,
precision_choice, torch_runtime, network_loader.
"""
