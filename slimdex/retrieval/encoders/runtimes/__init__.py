"""Runtimes: networks run by OpenVINO or torch.

`networks` builds those of the BERT family; others are converted from torch once and cached.
"""
