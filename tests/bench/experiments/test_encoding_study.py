"""Encoders side by side: real models in real processes, on few texts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from slimdex.bench.data.pairs import Pairs
from slimdex.bench.engines.encoders import CONTENDERS, missing_contenders
from slimdex.bench.experiments import encoding_study
from slimdex.bench.experiments.encoding_study import Texts, measure_encoders
from slimdex.bench.reporting.tables.studies import encoders
from slimdex.bench.rows import ResultsFile
from slimdex.retrieval.encoders.transformer import TransformerEncoder
from tests.bench.conftest import ABOUT

TWICE = {"sentence-transformers bf16", "CTranslate2 int8"}
"""Classes that another contender tries, too."""


@pytest.mark.slow
def test_rows_of_a_small_run(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_one_kind = [c for c in CONTENDERS if c.name not in TWICE]
    monkeypatch.setattr(encoding_study, "CONTENDERS", of_one_kind)
    monkeypatch.setattr(encoding_study, "ROUNDS", 1)  # each takes seconds, for the products' rate
    words = ["the cat", "a dog", "rain", "cat and dog", "the rain", "dog dog cat"]
    pairs = Pairs("STS-B", words[:3], words[3:], np.array([1.0, 2.0, 3.0]))
    texts = Texts("words", words * 20, [" ".join(words * 9)] * 5, [pairs])
    results = ResultsFile(tmp_path / "encode-bert.jsonl")
    tiny_bert = shutil.copytree(tiny_bert, tmp_path / "bert")
    config = json.loads((tiny_bert / "config.json").read_text())
    config["position_embedding_type"] = "absolute"  # which CTranslate2 requires
    (tiny_bert / "config.json").write_text(json.dumps(config))
    failed = measure_encoders(str(tiny_bert), tiny_bert, texts, results, ABOUT)
    assert failed == []
    rows = {row["encoder"]: row for row in results.rows.values()}
    expected = {c.name for c in of_one_kind} - set(missing_contenders(str(tiny_bert)))
    assert set(rows) == expected >= {"slimdex auto", "slimdex fp32", "slimdex bf16", "slimdex int8"}
    for name in {"ONNX Runtime", "fastembed", "CTranslate2"} & expected:
        assert rows[name]["STS-B"] == pytest.approx(rows["slimdex fp32"]["STS-B"])
    row, encoder = rows["slimdex fp32"], TransformerEncoder(str(tiny_bert), precision="fp32")
    assert row["short_tokens"] == encoder.count_tokens(texts.short)
    assert row["long_tokens"] == 5 * 64
    share = row["long_tokens_per_s"] * encoder.flops_per_token / row["product_flops"]
    assert row["long_share"] == pytest.approx(share, rel=1e-4)
    assert row["peak_bytes"] > 50e6
    assert row["p50_ms_single"] <= row["p95_ms_single"]
    assert abs(row["sts_average"] - row["STS-B"]) < 1e-9
    (table,) = encoders(list(results.rows.values()))
    assert {line[0].shown for line in table.rows} == expected
    assert table.note.startswith("words: 120 and 5 texts; matrix products: ")


def test_who_is_missing_is_told(tiny_bert: Path) -> None:
    missing = missing_contenders(str(tiny_bert))
    assert missing["ONNX Runtime int8"].startswith(("has all-MiniLM-L6-v2 only", "not installed"))
    assert "slimdex auto" not in missing
