"""Runtimes: networks run by OpenVINO, numpy or torch.

`bert` has those of the BERT family, over the operations of `openvino_operations` or
`numpy_operations`; others are converted from torch once and cached.
"""
