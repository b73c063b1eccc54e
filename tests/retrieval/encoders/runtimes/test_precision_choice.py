"""Int8 is chosen where it was measured to be faster, its vectors hold, and nothing else asks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from slimdex.indexes.arrays import normalize_rows
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.base import as_recorded, is_same_encoder
from slimdex.retrieval.encoders.runtimes import precision_choice
from slimdex.retrieval.encoders.runtimes.openvino_runtime import OpenVinoRuntime
from slimdex.retrieval.encoders.runtimes.precision_choice import (
    FEWEST_TEXTS,
    LEAST_AGREEMENT,
    LEAST_COSINE,
    NEIGHBOURS,
    TEXTS,
    Measured,
    compared,
    sample_texts,
)
from slimdex.retrieval.encoders.transformer import TransformerEncoder, encoder_from_spec
from slimdex.retrieval.user_cache import cache_folder

WORTH_IT = {"gain": 1.5, "cosine": 0.9996, "agreement": 0.98}
SETTINGS = Settings(kind="fp16")


@pytest.fixture
def cache(tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One with the run's conversions, and nothing that was measured."""
    TransformerEncoder(str(tiny_bert))  # is converted for all tests
    own = tmp_path / "models"
    own.mkdir()
    for kept in cache_folder().glob("*/"):
        if not kept.name.startswith("new-"):  # another process is making it
            (own / kept.name).symlink_to(kept)
    monkeypatch.setenv("SLIMDEX_CACHE", str(own))
    return own


@pytest.fixture
def auto(tiny_bert: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> TransformerEncoder:
    """An encoder whose int8 was measured before; what this processor makes of it does not count."""
    monkeypatch.setattr(precision_choice, "LIMIT_S", 60.0)
    encoder = TransformerEncoder(str(tiny_bert))
    encoder.fastest()
    return encoder


def memory(cache: Path) -> Path:
    (found,) = cache.glob("*-int8.json")
    return found


def near(encoder: TransformerEncoder, precision: str) -> Measured:
    """How the vectors of another precision are judged, whatever the time that it takes."""
    a, b = encoder._runtime, encoder.in_precision(precision)._runtime
    assert isinstance(a, OpenVinoRuntime)
    assert isinstance(b, OpenVinoRuntime)
    return compared(a, b, encoder._sample(sample_texts()))


def test_there_are_texts_to_measure_on() -> None:
    texts = sample_texts()
    assert len(set(texts)) == TEXTS > FEWEST_TEXTS
    assert texts == sample_texts()
    assert "Return the absolute value of the argument." in texts


@pytest.mark.parametrize(
    ("changed", "is_worth_it"),
    [
        ({}, True),
        ({"gain": 1.09}, False),
        ({"cosine": LEAST_COSINE - 1e-4}, False),
        ({"agreement": LEAST_AGREEMENT - 1e-4}, False),
        ({"agreement": float("nan")}, False),
    ],
)
def test_it_has_to_be_faster_and_to_hold(changed: dict[str, float], is_worth_it: bool) -> None:
    assert Measured(**WORTH_IT | changed).is_worth_it is is_worth_it


@pytest.mark.slow
def test_what_is_compared(auto: TransformerEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cosines and neighbours by numpy, over all of the texts."""
    monkeypatch.setattr(precision_choice, "LEAST_GAIN", 0.0)
    exact, coarse = auto.in_precision("fp32"), auto.in_precision("int8")
    found, texts = near(exact, "int8"), sample_texts()
    a, b = (normalize_rows(encoder.encode(texts)) for encoder in (exact, coarse))
    assert found.cosine == pytest.approx(float((a * b).sum(axis=1).mean()), abs=1e-4)
    shares = []
    for i in range(len(texts)):
        exact_order, order = (
            [j for j in np.argsort(-(rows @ rows[i])).tolist() if j != i] for rows in (a, b)
        )
        shares.append(len({*exact_order[:NEIGHBOURS]} & {*order[:NEIGHBOURS]}) / NEIGHBOURS)
    assert found.agreement == pytest.approx(np.mean(shares), abs=0.01)
    same = near(exact, "fp32")
    assert same.cosine == pytest.approx(1.0)
    assert same.agreement == 1.0


@pytest.mark.slow
def test_outliers_are_refused(
    tiny_bert: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A weight of a thousand in each row leaves no steps for the others."""
    monkeypatch.setattr(precision_choice, "LIMIT_S", 60.0)
    monkeypatch.setattr(precision_choice, "LEAST_GAIN", 0.0)
    shutil.copytree(tiny_bert, tmp_path / "outliers")
    path = tmp_path / "outliers" / "model.safetensors"
    weights = load_file(path)
    for name, weight in weights.items():
        if name.endswith("intermediate.dense.weight"):
            weight[:, 5] = 1000.0
        if name.endswith("attention.output.LayerNorm.weight"):
            weight[5] = 0.0  # what they are multiplied with
    save_file(weights, path, metadata={"format": "pt"})
    found = near(TransformerEncoder(str(path.parent), precision="fp32"), "int8")
    assert found.cosine < LEAST_COSINE
    assert not Measured(9.0, found.cosine, found.agreement).is_worth_it
    assert TransformerEncoder(str(path.parent)).fastest().precision != "int8"


@pytest.mark.slow
def test_too_little_time_is_no_proof(
    auto: TransformerEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision_choice, "LIMIT_S", 0.0)
    assert near(auto, "int8").agreement == 0.0


@pytest.mark.slow
def test_it_is_measured_once(
    auto: TransformerEncoder, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def again(*_: object) -> None:
        raise AssertionError("measured again")

    assert Measured.read(json.loads(memory(cache).read_text())) is not None
    monkeypatch.setattr(precision_choice, "compared", again)
    auto.fastest()
    TransformerEncoder(str(auto.spec()["model"])).fastest()
    for precision in ("fp32", "bf16", "int8"):  # what is asked for is not measured at all
        encoder = TransformerEncoder(str(auto.spec()["model"]), precision=precision)
        assert encoder.fastest() is encoder
    for damaged in (
        b"",
        b"[1]",
        b"\xff",
        b'{"gain": 2.0}',
        b'{"gain": "2", "cosine": 1.0, "agreement": 1.0}',
    ):
        memory(cache).write_bytes(damaged)
        with pytest.raises(AssertionError, match="measured again"):
            auto.fastest()


@pytest.mark.slow
@pytest.mark.parametrize(("gain", "is_known"), [(1.5, False), (0.9, True)])
def test_a_machine_too_busy_to_tell_is_asked_again(
    tiny_bert: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, gain: float, is_known: bool
) -> None:
    hurried = Measured(gain, 1.0, agreement=0.0)  # of too few texts; slower is slower all the same
    monkeypatch.setattr(precision_choice, "compared", lambda *_: hurried)
    assert TransformerEncoder(str(tiny_bert)).fastest().precision != "int8"
    assert bool([*cache.glob("*-int8.json")]) == is_known


@pytest.mark.slow
def test_where_nothing_can_be_remembered(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SLIMDEX_CACHE", str(tmp_path / "file"))
    assert TransformerEncoder(str(tiny_bert)).fastest().encode(["dog"]).shape == (1, 32)


@pytest.mark.slow
def test_an_index_is_made_and_searched_in_what_was_chosen(
    auto: TransformerEncoder, cache: Path, tmp_path: Path
) -> None:
    memory(cache).write_text(json.dumps(WORTH_IT))
    documents = [Document(str(i), f"the {word} {i}") for i, word in enumerate(["cat", "dog"] * 20)]
    with Collection.create(tmp_path / "i", auto, SETTINGS) as collection:
        collection.add(documents[:30])
        spec = collection.info()["encoder"]
        assert (spec["precision"], spec["measured"]) == ("int8", WORTH_IT)
    memory(cache).unlink()  # an index knows by itself, and nothing is measured for it
    exact = auto.in_precision("fp32")
    for encoder in (None, auto, exact):
        with Collection.open(tmp_path / "i", encoder) as collection:
            collection.add(documents[30:])
            assert collection.info()["encoder"] == spec
            assert isinstance(collection.encoder, TransformerEncoder)
            assert collection.encoder.precision == "int8"
            rows = collection.commit_log.vectors().take(np.arange(40))
    assert not list(cache.glob("*-int8.json"))
    texts = [document.text for document in documents]
    expected = auto.in_precision("int8").encode(texts)
    assert np.abs(rows - expected).max() < np.abs(rows - exact.encode(texts)).max()


@pytest.mark.slow
def test_a_spec_names_the_precision_of_its_vectors(auto: TransformerEncoder) -> None:
    coarse = auto.in_precision("int8")
    assert encoder_from_spec(coarse.spec()).precision == "int8"
    assert is_same_encoder(coarse.spec(), auto.spec())
    assert not is_same_encoder(coarse.spec(), auto.spec() | {"max_length": 5})
    assert as_recorded(auto, coarse.spec()).spec() == coarse.spec()
    assert auto.in_precision(auto.precision) is auto
