"""An untrusted index folder runs no code and reaches nothing outside itself."""

from __future__ import annotations

import copy
import gzip
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from slimdex.errors import CorruptError, InputError, SlimdexError
from slimdex.indexes.settings import Settings
from slimdex.indexes.tensors import load_tensors
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document, Part
from slimdex.retrieval.ingest.repairing import repair, verify
from slimdex.retrieval.store.state import Certificate, State
from slimdex.system.atomic_files import FIXED, FileRecord, check_folder, sha256
from slimdex.system.index_names import MANIFEST
from tests.chance import CHANCE
from tests.encoders import ReadingEncoder, WordEncoder
from tests.slow import slow

from ..forging import forge, rewrite, rewrite_records, rewrite_state
from ..server.asking import asking

QUERIES = ["parse a date", "remove a directory"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, docstrings: list[Document]) -> Path:
    path = tmp_path_factory.mktemp("stranger") / "x.index"
    with Collection.create(path, WordEncoder(), Settings(gamma=0.25, kind="sq8")) as collection:
        collection.add(docstrings[:300])
    return path


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "x.index"))


@pytest.fixture(scope="module")
def state(made: Path) -> dict[str, Any]:
    with Collection.open(made) as collection:
        values: dict[str, Any] = json.loads(collection.index.state.to_json())
    return values


def search(path: Path) -> list[list[str]]:
    with Collection.open(path, WordEncoder()) as collection:
        return [[hit.id for hit in hits] for hits in collection.search_many(QUERIES)]


def find(path: Path, role: str) -> Path:
    (file,) = path.glob(f"{role}*")
    return file


def change_columns(path: Path, sql: str) -> None:
    """Replace the file of columns by the result of a query of it, as its author could."""
    file = find(path, "columns")
    new = path.parent / "new.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW old AS FROM '{file}'")
        connection.execute(f"COPY ({sql}) TO '{new}'")
    new.replace(file)
    forge(path)


def change_state(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    def changed(values: dict[str, Any]) -> dict[str, Any]:
        change(values)
        return values

    rewrite_state(path, changed)


def vouch(path: Path, role: str) -> None:
    """Store the right checksum of a changed file, as its author could."""
    file = find(path, role)
    record = FileRecord(file.name, file.stat().st_size, sha256(file))
    change_state(path, lambda values: values["files"].update({role: vars(record)}))


def refused(path: Path, match: str) -> None:
    with pytest.raises(CorruptError, match=match) as raised:
        search(path)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_links_pipes_and_folders_are_refused(path: Path, tmp_path: Path, kind: str) -> None:
    outside = tmp_path / "outside"
    for name in (MANIFEST, "columns", "vectors", "codes", "reducer", "norms", "documents"):
        file = find(path, name)
        shutil.move(file, outside)
        if kind == "link":
            file.symlink_to(outside)
        elif kind == "pipe":
            os.mkfifo(file)
        else:
            file.mkdir()
        before = outside.read_bytes()
        match = "a link" if kind == "link" else "no file"
        if name == MANIFEST and kind != "link":
            with pytest.raises(InputError, match="no slimdex index there"):
                search(path)
        else:
            refused(path, f"{file.name}: {match}; expected a plain file")
        assert outside.read_bytes() == before
        file.rmdir() if kind == "folder" else file.unlink()
        shutil.move(outside, file)


def test_links_at_names_that_are_written_are_refused(path: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    for name in (
        *("columns-000000.parquet.tmp", "work-0123abcd", f"{MANIFEST}.tmp"),
        *("codes-000003.faiss.tmp", "norms-000099.f32"),
    ):
        (path / name).symlink_to(outside)
        refused(path, "a link")
        assert outside.read_text() == "mine"
        (path / name).unlink()
    (path / "README").symlink_to(outside)  # of no concern to us
    check_folder(path)


def test_the_index_folder_itself_may_be_a_link(path: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(path)
    assert search(tmp_path / "alias") == search(path)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 AS x",
        """SELECT 'a' AS "row", id, title, text FROM old""",
        """SELECT "row" + 1000000 AS "row", * EXCLUDE ("row") FROM old""",
        """SELECT -"row" AS "row", * EXCLUDE ("row") FROM old""",
        "FROM old UNION ALL FROM old",
    ],
)
def test_columns_of_others_add_no_documents(path: Path, sql: str) -> None:
    change_columns(path, sql)
    with Collection.open(path, WordEncoder()) as collection:
        ids = {document.id for document in collection}
        found = set[str]()
        with suppress(SlimdexError):
            found = {document.id for document in collection.get(where="id > ''")}
        assert found <= ids


def test_a_file_that_is_no_parquet_is_refused(path: Path) -> None:
    find(path, "columns").write_bytes(b"PAR1" * 9)
    forge(path)
    with Collection.open(path) as collection, pytest.raises(CorruptError):
        collection.count("id = 'x'")


def put(*keys: str | int, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(values: Any) -> None:
        for key in keys[:-1]:
            values = values[key]
        values[keys[-1]] = value

    return change


def proved(**changed: Any) -> Callable[[dict[str, Any]], None]:
    """A change of the state: a valid certificate with some fields changed."""
    whole = Certificate(0.99, 0.98, 0.05, "a log", 500, 300, 0.9)
    return put("certificate", value={**asdict(whole), **changed})


def replaced(**changed: Any) -> Callable[[dict[str, Any]], None]:
    """A change to a state whose vectors are being replaced."""
    whole = {"encoder": {}, "dim": 8, "vectors": "vectors-000002.f16", "rows": 0}
    return put("replacement", value={**whole, **changed})


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (put("vectors", value="../../etc/passwd"), "file '../../etc/passwd'; expected vectors"),
        (put("before", "rows", value=10**9), "rows before="),
        (put("log", "documents", value="../documents-000002.log"), "expected documents-000001"),
        (put("files", "codes", "name", value="../x.faiss"), "expected codes-000001"),
        (put("files", value={}), "no file of codes"),
        (put("dim", value=1 << 40), "dim=.*expected 1 to"),
        (put("rows", value=10**9), "rows of columns=300; expected 999999744"),
        (put("column_files", 0, "name", value="../x.parquet"), "expected columns-000001"),
        (put("flags", value="../flags-000001.bin"), "expected flags-000001"),
        (put("fit", "settings", "reducer", value="pickle"), "reducer='pickle'"),
        (put("center", value="AAAA"), "a center of|multiple of element size"),
        (replaced(vectors="../vectors-000002.f16"), "expected vectors-000001"),
        (replaced(dim=1 << 40), "dim=.*expected 1 to"),
        (put("x", value=1), "unexpected keyword"),
        (proved(bound=-0.5), "bound=-0.5; expected 0 to"),
    ],
)
def test_invalid_states_are_refused(
    state: dict[str, Any], change: Callable[[dict[str, Any]], None], match: str
) -> None:
    state = copy.deepcopy(state)
    change(state)
    with pytest.raises(CorruptError, match=match) as raised:
        State.from_json(json.dumps(state))
    assert "\n" not in str(raised.value)


def test_an_index_with_an_invalid_state_is_not_opened(path: Path, tmp_path: Path) -> None:
    (tmp_path / "vectors-000001.f16").write_bytes(b"mine")
    change_state(path, put("vectors", value="../vectors-000001.f16"))
    refused(path, "state in the manifest: file")
    assert (tmp_path / "vectors-000001.f16").read_bytes() == b"mine"


def test_a_state_that_is_no_json_object_is_refused() -> None:
    for text in ("[]", "3", "null", '"x"', "{", "[" * 100_000):
        with pytest.raises(CorruptError, match="state in the manifest"):
            State.from_json(text)


def wider(arrays: dict[str, Any], name: str) -> Any:
    return np.concatenate([arrays[name], arrays[name]])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("role", "name", "make"),
    [
        ("reducer", "components", wider),
        ("reducer", "components", lambda a, n: a[n].astype(np.float64)),
        ("reducer", "components", lambda a, n: a[n] * np.float32(np.nan)),
        ("reducer", "components", lambda a, n: a[n][:, :-4]),
        ("rescorer", "shift, gram", wider),
        ("moments", "scatter", lambda a, n: a[n] * np.inf),
    ],
)
def test_arrays_of_wrong_shapes_or_values_are_refused(
    path: Path, role: str, name: str, make: Callable[..., Any]
) -> None:
    """Also if two fit each other, and no other file."""
    file = find(path, role)
    kind, params, arrays = load_tensors(file)
    name, *others = name.split(", ")
    arrays[name] = np.ascontiguousarray(make(arrays, name))
    for other in others:
        wide = len(arrays[name])
        arrays[other] = np.zeros((wide, params.get("n_components", wide)), np.float32)
    save_file(arrays, file, metadata={"kind": kind, "params": json.dumps(params)})
    vouch(path, role)
    with (
        Collection.open(path, WordEncoder()) as collection,
        pytest.raises(CorruptError, match=file.name),
    ):
        collection.delete([collection.search_many(QUERIES)[0][0].id])
    assert any(file.name in fault for fault in verify(path))
    assert repair(path, untrusted=True)
    assert verify(path) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("params", "kind"),
    [
        ({"n_components": 24.0, "beta": 0.0, "gamma": 0.25}, "whitening"),
        ({"n_components": 24, "x": 1}, "whitening"),
        ({"n_components": [24]}, "flow"),
        ({}, "os.system"),
    ],
)
def test_invalid_reducer_parameters_are_refused(path: Path, params: object, kind: str) -> None:
    file = find(path, "reducer")
    metadata = {"kind": kind, "params": json.dumps(params)}
    save_file(load_file(file), file, metadata=metadata)
    vouch(path, "reducer")
    refused(path, file.name)


def test_sizes_are_checked_before_allocation(path: Path) -> None:
    file = find(path, "reducer")
    forged = [(size, b'{"a":1}' * 3) for size in (2**63 - 1, 2**40, 100 << 20, 8)]
    for shape in ([1 << 40], [1 << 32, 1 << 32], [0, 1 << 62], [-1]):
        tensor = {"dtype": "F32", "shape": shape, "data_offsets": [0, 4]}
        header = json.dumps({"__metadata__": {"kind": "whitening"}, "components": tensor})
        forged.append((len(header), header.encode() + b"1234"))
    for size, data in forged:
        file.write_bytes(size.to_bytes(8, "little") + data)
        with pytest.raises(CorruptError, match="not a slimdex tensor file"):
            load_tensors(file)


@pytest.mark.slow
def test_codes_of_another_size_are_refused(path: Path, docstrings: list[Document]) -> None:
    other = path.parent / "other.index"
    settings = Settings(k=16, gamma=0.25, kind="sq8")
    with Collection.create(other, WordEncoder(), settings) as collection:
        collection.add(docstrings[:300])
    shutil.copy(find(other, "codes"), find(path, "codes"))
    vouch(path, "codes")
    refused(path, "codes.*16 dimensions; expected 24")


@pytest.mark.slow
def test_repair_of_an_untrusted_index_reads_no_derived_file(path: Path, made: Path) -> None:
    """The derived files are not read: their contents would be refused."""
    for role in ("codes", "reducer", "rescorer", "moments"):
        find(path, role).write_bytes(b"poison")
        vouch(path, role)
    find(path, "columns").write_bytes(b"poison")
    forge(path)
    for file in find(path, "words").iterdir():
        file.write_bytes(b"poison")
    names = {file.name for file in path.iterdir()}
    assert repair(path, untrusted=True) == [f"{path}: untrusted"]
    assert verify(path) == []
    assert search(path) == search(made)
    kept = {file.name for file in path.iterdir()} & names
    log = {"documents-000001.log", "offsets-000001.bin", "flags-000001.bin"}
    assert kept - {*FIXED} == {"vectors-000001.f16", *log}
    change_state(path, put("requested", "kind", value="IVF100000000,Flat"))
    with pytest.raises(CorruptError, match="IVF100000000,Flat"):
        repair(path, untrusted=True)


SPECS: dict[str, dict[str, Any]] = {
    "static": {"type": "static", "model": "/m", "sha256": "0", "pooling": "mean"},
    "transformer": {
        **{"type": "transformer", "model": "/m", "sha256": "0", "revision": None},
        **{"pooling": "mean", "max_length": 16, "precision": "auto", "prompts": ["a", "b"]},
        **{"head": ["Dense"], "trust_remote_code": False},
    },
    "http": {
        **{"type": "http", "url": "http://127.0.0.1:9", "model": "m", "dim": 48},
        **{"max_length": 16, "fingerprint": "AAAA", "dimensions": 48, "prompts": ["a", "b"]},
    },
    "given": {"type": "given", "dim": 48},
}
"""Specs of all types of encoders that an index can name, which can't be opened."""
NOT_TEXTS = [[], {}, 3, -1, 1.5, True, 10**30, float("nan"), [[]], [1, "a"], "a\0b", "\ud800"]
NOT_NUMBERS = [[], {}, "16", 0, -1, 1.5, True, 10**30, float("inf"), "a\0b"]
NOT_LISTS = [{}, 3, "a", True, [3], [None], [["a"]], ["a", "b\0"], [1.5, 1.5]]
WRONG = {str: NOT_TEXTS, int: NOT_NUMBERS, list: NOT_LISTS, bool: [1, "yes", [], 1.5]}


@pytest.mark.parametrize("kind", SPECS)
def test_no_field_of_an_encoder_may_be_of_another_type(state: dict[str, Any], kind: str) -> None:
    """Neither of the encoder, nor of one that replaces it."""
    spec = SPECS[kind]
    State.from_json(json.dumps(state | {"encoder": spec}))
    for name, value in spec.items():
        for wrong in WRONG[type(value)] if name != "type" and value is not None else ():
            made = spec | {name: wrong}
            for change in (put("encoder", value=made), replaced(encoder=made)):
                forged = copy.deepcopy(state)
                change(forged)
                with pytest.raises(CorruptError, match=f"encoder with {name}="):
                    State.from_json(json.dumps(forged))


FORGED: list[Any] = [
    *[None, [], {}, [None], {"a": 1}, ["x"], True, 0, -1, 1.5, 7, 2**31, 2**62, 10**30],
    *[float("nan"), float("inf"), "", "x", "../x", "/etc/passwd"],
    *["a\nb", "a\0b", "\ud800", "9" * 5000],
]


def leaves(value: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The places of all values in a JSON value, at any depth."""
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in parts:
        yield (*place, key)
        if isinstance(part, dict | list):
            yield from leaves(part, (*place, key))


@pytest.mark.slow
@settings(max_examples=CHANCE.examples(30))
@given(st.data())
def test_any_forged_value_ends_in_an_answer_or_one_line(
    made: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = Path(shutil.copytree(made, tmp_path_factory.mktemp("forged") / "x.index"))

    def forged(header: dict[str, Any]) -> dict[str, Any]:
        header["state"] = json.loads(header["state"])
        place = data.draw(st.sampled_from([*leaves(header)]))
        put(*place, value=data.draw(st.sampled_from(FORGED)))(header)
        return header | {"state": json.dumps(header["state"])}

    def use(what: Callable[[Collection], object]) -> None:
        with Collection.open(path, WordEncoder()) as collection:
            what(collection)

    def ask() -> None:
        use(lambda collection: (collection.info(), collection.count("id > 'm'")))
        use(lambda collection: collection.search_many(QUERIES))
        use(lambda collection: collection.add([Document("new", "a new one")]))
        use(lambda collection: [*collection])

    rewrite(path, forged)
    for call in (ask, lambda: verify(path), lambda: repair(path, untrusted=True), ask):
        line = ""
        try:
            call()
        except SlimdexError as error:
            line = str(error)
        assert "\n" not in line
    shutil.rmtree(path)


def test_nested_encoders_are_refused(state: dict[str, Any]) -> None:
    deep: list[Any] = []
    for _ in range(250):
        deep = [deep]
    with pytest.raises(CorruptError, match="nested too deep"):
        State.from_json(json.dumps(state | {"encoder": {"type": "mine", "x": deep}}))


SECRET = b"write 77b7e1d6SECRET\nread  0d2b4c51READER\n"
PACKED = gzip.compress(SECRET, mtime=0)


CONTENTS = [
    *(SECRET, b"SECRET", b"SECRET 1 2 3\nSECRET 1 2\n", b"2 2\nSECRET 1\n"),
    *(b"\xff\xfe" + SECRET, PACKED, PACKED[:20], b"", b"a 1 2\n" + SECRET),
    b"12 4\nSECRET " + bytes(16) + SECRET,
]


@pytest.mark.parametrize("given", [False, True])
def test_no_line_of_a_file_that_an_index_names_is_quoted(
    path: Path, tmp_path: Path, given: bool
) -> None:
    """Unless its user names it."""
    file = tmp_path / "tokens"
    change_state(path, put("encoder", value=SPECS["static"] | {"model": str(file)}))
    repair(path, untrusted=True)
    for content in CONTENTS:
        file.write_bytes(content)
        with (
            Collection.open(path, model=str(file) if given else None) as collection,
            pytest.raises(InputError) as raised,
        ):
            collection.search("a")
        line = str(raised.value)
        assert line.startswith((f"model {str(file)!r}", str(file)))
        assert given or not any(part in line for part in ("SECRET", "READER", "line 1", "7b7e"))
        assert "\n" not in line
    assert verify(path) == []


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
@pytest.mark.parametrize("kind", ["pipe", "link to nothing", "a long name", "a loop"])
def test_no_place_that_an_index_names_makes_a_search_wait(
    path: Path, tmp_path: Path, kind: str
) -> None:
    file = tmp_path / "model"
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "a long name":
        file = tmp_path / ("long" * 200)
    else:
        file.symlink_to(file if kind == "a loop" else tmp_path / "nothing")
    for name in ("static", "transformer"):
        change_state(path, put("encoder", value=SPECS[name] | {"model": str(file)}))
        with Collection.open(path) as collection, pytest.raises(InputError, match="model"):
            collection.search("a")


async def test_a_service_tells_nothing_of_files_that_an_index_names(
    path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "tokens").write_bytes(SECRET)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "config.json").write_text('{"_attn_implementation": "SECRET/x"}')
    save_file({"x": np.zeros(3, np.float32)}, tmp_path / "folder" / "model.safetensors")
    for kind, name in (
        *[("static", "tokens"), ("static", "folder"), ("static", "none")],
        *[("transformer", "tokens"), ("transformer", "folder"), ("transformer", "none")],
    ):
        spec = SPECS[kind] | {"model": str(tmp_path / name)}
        change_state(path, put("encoder", value=spec))
        async with asking({"x": path}, encoder=None) as (client, _):
            for answer in (
                await client.post("/indexes/x/search", json={"query": "a"}),
                await client.put("/indexes/x/documents/new", json={"text": "rain"}),
                await client.post("/v1/embeddings", json={"model": "x", "input": "a"}),
            ):
                assert answer.status_code == 500, answer.text
                assert "the index's encoder can't be opened; the server's log says" in answer.text
            info = await client.get("/indexes/x")
            assert (info.status_code, str(tmp_path) in info.text) == (200, False)
        assert f"{tmp_path / name}" in caplog.text
    assert "READER" not in caplog.text


def test_an_untrusted_encoder_runs_no_code(path: Path) -> None:
    spec = SPECS["transformer"] | {"model": "x/y", "trust_remote_code": True}
    change_state(path, put("encoder", value=spec))
    with (
        Collection.open(path) as collection,
        pytest.raises(InputError, match="has custom code; expected trust_remote_code=True"),
    ):
        collection.search_many("a")


def test_the_configuration_is_locked(path: Path) -> None:
    with (
        Collection.open(path, WordEncoder()) as collection,
        collection.index.store.reading() as connection,
    ):
        for statement in (
            "SET enable_external_access = true",
            "SET lock_configuration = false",
            "SET memory_limit = '100GB'",
            "SET autoload_known_extensions = true",
            "SET temp_directory = '/'",
            "INSTALL httpfs",
            "LOAD httpfs",
            "ATTACH '/etc/passwd' AS x",
            "COPY documents TO '/dev/null'",
            "FROM read_text('/etc/hostname')",
            "FROM '/etc/hostname'",
        ):
            with pytest.raises(duckdb.Error):
                connection.execute(statement)


LONG = " ".join(f"Sentence {i} of other{i} and word{i}." for i in range(9))
"""Three passages and more."""


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of 40 documents, every fourth of which has passages and parts."""
    path = tmp_path_factory.mktemp("long") / "x.index"
    parts = [Part(0, ["A"]), Part(9, ["A", "B"])]
    documents = [
        Document(str(i), f"word{i} {LONG}", parts=parts) if i % 4 else Document(str(i), f"word{i}")
        for i in range(40)
    ]
    with Collection.create(path, ReadingEncoder()) as collection:
        collection.add(documents)
        assert collection.info()["passages"]["documents_cut"] == 30
    return path


def passages(value: Any) -> Callable[[list[Any]], None]:
    """A change of a record: other passages."""

    def change(record: list[Any]) -> None:
        if isinstance(record[2], list):
            record[2][1] = value
            record[2][3] = [""] * len(value)

    return change


def parts(value: Any) -> Callable[[list[Any]], None]:
    """A change of a record: other parts."""

    def change(record: list[Any]) -> None:
        if isinstance(record[2], list):
            record[2][2] = value

    return change


NOT_OURS = [
    passages([[0, 1]] * 1000),
    passages([[10**12, 10**12 + 1], [10**13, 10**14]]),
    passages([[-1, 5], [1, 2]]),
    passages([["a", "b"]]),
    passages([]),
    parts([[1]]),
    parts([[1e999, [], None, ""]]),
    parts([[90_000_000_000, ["x"], None, ""], [0, ["y"], None, ""]]),
    lambda record: record.clear(),
    lambda record: record.append({"odd": 1}),
    lambda record: record.append({"date": []}),
    lambda record: record.extend([1] * 9),
]
"""Changes of records."""


@pytest.mark.slow
@pytest.mark.parametrize("change", [*NOT_OURS[:3], *slow(NOT_OURS[3:])])
def test_invalid_records_add_nothing_to_answers(
    long: Path, tmp_path: Path, change: Callable[[list[Any]], None]
) -> None:
    """Searches answer, or are refused in one line; every answer is part of a text."""
    path = Path(shutil.copytree(long, tmp_path / "x.index"))

    def changed(row: int, record: bytes) -> bytes:
        values = json.loads(record)
        change(values)
        return json.dumps(values).encode()

    rewrite_records(path, changed)

    def ask() -> None:
        with Collection.open(path, ReadingEncoder()) as collection:
            for per in ("document", "passage"):
                for hit in collection.search("sentence of other3", 5, group_by=per):
                    assert hit.text in f"word{hit.id} {LONG}"
            assert {document.id for document in collection} <= {str(i) for i in range(40)}

    def write() -> None:
        with Collection.open(path, ReadingEncoder()) as collection:
            collection.add([Document("5", f"anew {LONG}"), Document("new", LONG)])
            collection.delete("9")
            collection.compact()
            assert collection.verify() == []

    for call in (ask, write):
        refused = ""
        try:
            call()
        except CorruptError as error:
            refused = str(error)
        assert "\n" not in refused
