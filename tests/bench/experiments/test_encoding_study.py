"""Encoders side by side: real models on few texts, in one process."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from slimdex.bench.engines.encoders import CONTENDERS, missing_contenders
from slimdex.bench.experiments import encoding_study
from slimdex.bench.experiments.encoding_study import Texts
from slimdex.bench.experiments.similarity_study import SEVEN
from slimdex.bench.reporting.tables import encoders
from slimdex.bench.rows import ResultsFile
from slimdex.retrieval.encoders.transformer import TransformerEncoder
from tests.bench.conftest import Here
from tests.bench.test_commands import bench, write_pairs

TWICE = {"slimdex auto", "slimdex bf16", "sentence-transformers bf16"}
"""Classes that another contender tries, too."""


@pytest.mark.slow
def test_rows_of_a_small_run(
    beir: Path, tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_one_kind = {name: CONTENDERS[name] for name in CONTENDERS if name not in TWICE}
    monkeypatch.setattr(encoding_study, "CONTENDERS", of_one_kind)
    monkeypatch.setattr(encoding_study, "Subprocess", Here)
    for name, few in (("ROUNDS", 1), ("LONG_TEXTS", 5), ("SINGLE_TEXTS", 5)):
        monkeypatch.setattr(encoding_study, name, few)
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)  # a contender does, too
    write_pairs(beir / "sts")
    (beir / "retrieval").mkdir()
    (beir / "words").rename(beir / "retrieval" / "scifact")
    model = shutil.copytree(tiny_bert, tmp_path / "bert")
    said = bench("encode", "--data", beir, "--models", model, folder=tmp_path)
    found = list(ResultsFile(tmp_path / "bench-results" / "encode-bert.jsonl").rows.values())
    rows = {row["encoder"]: row for row in found}
    expected = {*of_one_kind} - {*missing_contenders(str(model))}
    assert set(rows) == expected >= {"slimdex fp32", "slimdex int8"}
    assert [row["error"] for row in found if "error" in row] == []
    if "ONNX Runtime" in expected:
        assert rows["ONNX Runtime"]["STS-B"] == pytest.approx(rows["slimdex fp32"]["STS-B"])
    row, encoder = rows["slimdex fp32"], TransformerEncoder(str(model), precision="fp32")
    texts = Texts.read(beir)
    assert row["short_tokens"] == encoder.count_tokens(texts.short)
    assert row["long_tokens"] == encoder.count_tokens(texts.long)
    assert (row["short_texts"], row["long_texts"]) == (60, 5)
    seconds = 5 / row["long_texts_per_s"]
    assert row["long_tokens_per_s"] == pytest.approx(row["long_tokens"] / seconds, rel=1e-4)
    assert row["peak_bytes"] > 50e6
    assert row["p50_ms_single"] <= row["p95_ms_single"]
    assert row["sts_average"] == pytest.approx(np.mean([row[name] for name in SEVEN]))
    (table,) = encoders(found)
    assert {line[0].shown for line in table.rows} == expected
    assert table.note.startswith("STS, scifact: 60 and 5 texts")
    assert f"\n| {' | '.join(table.heads)} |\n" in said
