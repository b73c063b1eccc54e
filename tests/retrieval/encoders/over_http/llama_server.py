"""llama.cpp's own server, from PyPI, with all-MiniLM-L6-v2 in its format.

Run as a script with a GGUF file, it prints its URL and serves until its input ends.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def write_gguf(folder: Path, path: Path) -> None:
    """Write a BERT's weights and vocabulary as llama.cpp's converter does."""
    import gguf
    from safetensors.numpy import load_file

    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    layers = config["num_hidden_layers"]
    out: Any = gguf.GGUFWriter(path, "bert")
    out.add_context_length(config["max_position_embeddings"])
    out.add_embedding_length(config["hidden_size"])
    out.add_block_count(layers)
    out.add_feed_forward_length(config["intermediate_size"])
    out.add_head_count(config["num_attention_heads"])
    out.add_layer_norm_eps(config["layer_norm_eps"])
    out.add_causal_attention(False)
    out.add_pooling_type(gguf.PoolingType.MEAN)
    out.add_token_type_count(config["type_vocab_size"])
    add_vocabulary(out, (folder / "vocab.txt").read_text().split("\n")[: config["vocab_size"]])
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, layers)
    for name, weights in load_file(folder / "model.safetensors").items():
        if known := names.get_name(name, try_suffixes=(".weight", ".bias")):
            out.add_tensor(known, weights)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def add_vocabulary(out: Any, words: list[str]) -> None:
    """Mark the beginnings of words, as llama.cpp does, instead of the other pieces."""
    import gguf

    special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
    kinds = [gguf.TokenType.CONTROL if w in special else gguf.TokenType.NORMAL for w in words]
    marked = [w if w in special else w[2:] if w.startswith("##") else f"\u2581{w}" for w in words]
    out.add_tokenizer_model("bert")
    out.add_tokenizer_pre("default")
    out.add_token_list(marked)
    out.add_token_types(kinds)
    out.add_bos_token_id(words.index("[CLS]"))
    out.add_eos_token_id(words.index("[SEP]"))
    out.add_sep_token_id(words.index("[SEP]"))
    out.add_pad_token_id(words.index("[PAD]"))
    out.add_unk_token_id(words.index("[UNK]"))


@contextmanager
def llama_server(path: Path) -> Iterator[str]:
    """URL of a server of a GGUF file, in a process of its own."""
    command = [sys.executable, __file__, str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            yield next(line.strip() for line in lines if line.startswith("http://"))
        finally:
            process.kill()


def serve(path: str) -> None:
    """Serve a GGUF file on a free port, four texts at once, each of up to 512 tokens."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = path
    params.embedding = True
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.n_batch = params.n_ubatch = params.n_ctx = 2048
    params.n_parallel = 4
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.verbosity = 0
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    serve(sys.argv[1])
