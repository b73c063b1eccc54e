"""Plans by the repository's own rows: what has to hold of any plan, and cases worked by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slimdex.bench.planning.encoders import operations_by, operations_of
from slimdex.bench.planning.estimates import BUSY, Asked
from slimdex.bench.planning.laws import EXTRAPOLATED, MEASURED
from slimdex.bench.planning.model import Model
from slimdex.bench.planning.plan import Figure, Plan, Planner, plan
from slimdex.bench.planning.telling import advice, told
from slimdex.bench.planning.workload import Machine, Workload
from slimdex.bench.rows import FOLDER
from slimdex.indexes.choices import usual_candidates
from slimdex.indexes.errors import InputError

MACHINE = Machine(ram=64 * 10**9, cores=16)


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.of(FOLDER)


def figure(made: Plan, name: str) -> Figure:
    (found,) = (one for one in made.figures if one.name == name)
    return found


def test_memory_and_vectors_by_hand(model: Model) -> None:
    small = Workload(1_000_000, 384)
    held = 1_000_000 * 192 / 8 + 4 * 384 * 192 + 4 * 384 * 384
    assert model.index_bytes(small) == pytest.approx(held, rel=0.005)
    large = Workload(10_000_000, 384)
    held = 10_000_000 * (192 / 8 + 8) + 6325 * 192 * 4
    assert held < model.index_bytes(large) < 1.05 * held
    assert model.code.coefficients == pytest.approx({"kept": 1 / 8, "ids": 8})
    assert model.memory.coefficients == pytest.approx({"parts": 1}, rel=0.01)
    for stored, each in (("fp16", 2.0), ("int8", 1 + 2 / 32)):
        workload = Workload(1_000_000, 768, stored=stored)
        vectors = 1_000_000 * (768 * each + 4) + model.index_bytes(workload)
        planner = Planner(model, Asked(workload, MACHINE))
        assert planner.vectors_disk(workload) == pytest.approx(vectors, rel=1e-4)


def test_every_law_is_of_rows_and_none_gives_back(model: Model) -> None:
    for _, law in model.laws():
        assert min(law.coefficients.values()) >= 0 < max(law.coefficients.values())
        assert len(law.seen) >= 1


@pytest.mark.slow
@given(
    st.integers(1000, 10**11),
    st.sampled_from([64, 384, 768, 1024]),
    st.floats(0, 1e5),
    st.floats(0.9, 0.999),
    st.integers(1, 64),
)
def test_what_holds_of_any_plan(
    model: Model, documents: int, dim: int, qps: float, recall: float, cores: int
) -> None:
    machine = Machine(ram=16 * 10**9, cores=cores)
    asked = Asked(Workload(documents, dim), machine, qps=qps, recall=recall)
    made, planner = plan(model, asked), Planner(model, asked)
    part = planner.of(documents / made.for_memory)
    assert planner.held(part) <= machine.ram
    if made.for_memory > 1:
        assert planner.held(planner.of(documents / (made.for_memory - 1))) > machine.ram * 0.99
    parts, machines = planner.fewest(planner.of(documents), made.for_memory)
    assert machines == made.for_load
    copies, rest = divmod(machines, parts)
    assert (rest, parts % made.for_memory) == (0, 0)
    each = planner.capacity(planner.of(documents / parts), parts)
    assert copies * each >= qps * (1 - 1e-9)
    assert copies == 1 or (copies - 1) * each < qps
    alone = planner.capacity(part, made.for_memory)
    assert machines <= made.for_memory * max(1, -(-qps // alone))
    steps = [one for one in made.figures if one.name.startswith("build: ")]
    total = figure(made, "build in all")
    assert total.one == pytest.approx(sum(one.one for one in steps))
    assert total.many == pytest.approx(sum(one.many for one in steps))
    assert made.build_s == pytest.approx(planner.build_s(planner.of(documents), made.for_build))
    undivided = planner.fit_s(planner.of(documents)) + planner.write_s(planner.of(documents))
    assert made.build_s <= max(8 * 3600, undivided + 0.011 * total.one)
    for one in made.figures:
        assert 0 < one.one < float("inf")
        assert one.evidence
        if documents > 2e7 and one.evidence.rows:
            assert one.evidence.status == EXTRAPOLATED


def test_load_by_hand(model: Model) -> None:
    workload = Workload(1_000_000, 384)
    planner = Planner(model, Asked(workload, MACHINE, qps=5000))
    one = BUSY / planner.query_s(workload)
    assert planner.capacity(workload) == pytest.approx(16 * one)
    narrow = Planner(model, Asked(workload, Machine(ram=10**8, cores=16)))
    assert narrow.processes(workload) == int(1e8 // planner.held(workload)) < 16
    two = planner.of(500_000)
    search = planner.query_s(two) - planner.encode_query_s(two)
    busy = 2 * search + planner.encode_query_s(two)  # both search, one of them encodes
    assert planner.capacity(two, 2) == pytest.approx(2 * 16 * BUSY / busy)
    made = planner.plan()
    assert made.for_memory == 1
    assert made.for_load <= -(-5000 // planner.capacity(workload))
    all_ = figure(made, "queries of all")
    assert all_.one == planner.capacity(workload) < 5000 <= all_.many


def test_where_ray_and_milvus_begin_to_pay(model: Model) -> None:
    asked = Asked(Workload(10**9, 768), MACHINE, qps=200, recall=0.99)
    made, planner = plan(model, asked), Planner(model, asked)
    build, memory, load = (
        made.ray_from["build"],
        made.milvus_from["memory"],
        made.milvus_from["load"],
    )
    assert build
    assert memory
    assert load
    assert (
        planner.build_s(planner.of(0.9 * build))
        < 8 * 3600
        < planner.build_s(planner.of(1.1 * build))
    )
    assert (
        planner.held(planner.of(0.9 * memory))
        < MACHINE.ram
        < planner.held(planner.of(1.1 * memory))
    )
    assert planner.capacity(planner.of(1.1 * load)) < 200 < planner.capacity(planner.of(0.9 * load))
    later = plan(model, replace(asked, hours=80.0))
    assert later.ray_from["build"] is not None
    assert later.ray_from["build"] > build
    never = Asked(Workload(1000, 384), Machine(10**16, 100_000), qps=0, hours=1e6)
    assert "Milvus pays: never, by this model" in advice(plan(model, never))


def test_candidates_follow_the_recall(model: Model) -> None:
    assert Planner(model, Asked(Workload(1_183_499, 384), MACHINE)).plan().asked.workload.rescored
    assert model.candidates(60_000, 0.99) < model.candidates(60_000, 0.999)
    more = model.candidates(8 * 10**6, 0.99) / model.candidates(10**6, 0.99)
    assert more == pytest.approx(2, rel=0.01)  # the cube root
    whole = Asked(Workload(1_183_499, 384), MACHINE)
    assert plan(model, whole).asked.workload.rescored == usual_candidates(1_183_499) == 540
    asked = plan(model, replace(whole, recall=0.99))
    assert figure(asked, "candidates").one == model.candidates(1_183_499, 0.99)


def test_what_was_measured_is_called_so(model: Model) -> None:
    made = plan(model, Asked(Workload(1_000_000, 384), MACHINE, machines=2))
    searching = figure(made, "query: searching").evidence
    assert searching
    assert (searching.status, searching.processors) == (MEASURED, ("Intel(R) Xeon(R) Processor",))
    lists = plan(model, Asked(Workload(1_000_000, 384, kind="ivf-pq"), MACHINE, machines=2))
    other = figure(lists, "query: searching").evidence
    assert other
    assert other.status != MEASURED  # pq was
    encoding = figure(made, "build: encoding").evidence
    assert encoding
    assert encoding.processors == ("AMD EPYC",)
    known = plan(model, Asked(Workload(1_000_000, 384), MACHINE, tokens_per_s=1e5))
    assert figure(known, "build: encoding").evidence is None
    assert figure(known, "build: encoding").one == pytest.approx(1_000_000 * 100 / 1e5)


def test_operations_of_encoders(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(
        '{"hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536, "more": 1}'
    )
    assert operations_by(config) == operations_of("all-MiniLM-L6-v2", FOLDER) == 21_233_664
    assert operations_of(str(tmp_path), FOLDER) == 21_233_664
    assert Workload(10_000, 384).token_operations == 21_233_664
    config.write_text('{"hidden_size": 384}')
    with pytest.raises(InputError, match=r"config.json: KeyError\('num_hidden_layers'\)"):
        operations_of(str(tmp_path), FOLDER)
    with pytest.raises(InputError, match="--model 'nothing'; expected all-MiniLM-L6-v2, a folder"):
        operations_of("nothing", FOLDER)


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (999.6e6, "bytes", "1 GB"),
        (1234, "bytes", "1.23 kB"),
        (80 * 60, "s", "80 min"),
        (95 * 60, "s", "1.58 h"),
        (5 * 86_400, "s", "5 days"),
        (0.2345, "s", "234 ms"),
        (12_345, "", "12,345"),
        (0.004, "/s", "0.004/s"),
    ],
)
def test_units(value: float, unit: str, said: str) -> None:
    assert told(value, unit) == said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"documents": 0}, r"--documents 0; expected 1,000 to 1e\+13"),
        ({"dim": 8}, "--dim 8; expected 16 to 65,536"),
        ({"k": 400}, "--k 400; expected 4 to 384"),
        ({"kind": "hnsw"}, "--kind 'hnsw'; expected auto, pq, ivf-pq"),
        ({"stored": "fp8"}, "--stored 'fp8'; expected fp16, int8"),
        ({"tokens": float("nan")}, "--tokens nan; expected 0 to"),
    ],
)
def test_no_workload(words: dict[str, int], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Workload(**{"documents": 10_000, "dim": 384, **words})  # type: ignore[arg-type]
