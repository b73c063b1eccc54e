"""Encoders: texts in, vectors out.

`base` says what an encoder is, `transformer` is one and `word_vectors` has another; the rest is
what they are made of, `opened` chooses between them, `distillation` makes the second of the first.
Files import only what is above them: base, adapters, cache, folder_checks, tokens, sbert_wk,
pooling, hub, sentence_folder, processor, streams, openvino_runtime, precision_choice,
torch_runtime, transformer, word_vectors, opened, distillation.
"""

import sys

# OpenVINO reports each conversion to its makers over the network, from processes that several
# threads fork at once. OpenBLAS loses its own threads by that and waits for them for ever, as
# `numpy.linalg.eigh` after a conversion; and what users convert is no one else's business.
sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
