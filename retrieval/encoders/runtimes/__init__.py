"""Runtimes: networks run by OpenVINO or torch.

`networks` builds those of the BERT family; others are converted from torch once and cached. Files
and folders import only what is above them: openvino_library, cache, processor, streams,
openvino_runtime, precision_choice, networks, quick_start, torch_runtime, network_loader.
"""
