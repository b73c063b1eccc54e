"""Runtimes: networks run by OpenVINO or torch.

`bert_openvino` and `bert_numpy` build those of the BERT family; others are converted from torch
once and cached.
"""
