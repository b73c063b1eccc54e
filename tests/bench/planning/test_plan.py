"""Plans by the repository's own rows: what has to hold of any plan, and cases worked by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slimdex.bench.planning.estimates import MOST_MACHINES, Asked
from slimdex.bench.planning.model import Model
from slimdex.bench.planning.plan import Figure, Plan, Planner, plan
from slimdex.bench.planning.telling import advice, told
from slimdex.bench.planning.workload import Machine, Workload
from slimdex.bench.rows import FOLDER
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
    st.floats(1, 1e9),
    st.integers(1, 64),
)
def test_what_holds_of_any_plan(
    model: Model, documents: int, dim: int, tokens_per_s: float, cores: int
) -> None:
    machine = Machine(ram=16 * 10**9, cores=cores)
    asked = Asked(Workload(documents, dim), machine, tokens_per_s=tokens_per_s)
    made, planner = plan(model, asked), Planner(model, asked)
    held = model.index_bytes
    assert held(planner.of(documents / made.for_memory)) <= machine.ram
    if made.for_memory > 1:
        assert held(planner.of(documents / (made.for_memory - 1))) > machine.ram * 0.99
    steps = [one for one in made.figures if one.name.startswith("build: ")]
    total = figure(made, "build in all")
    assert total.one == pytest.approx(sum(one.one for one in steps))
    assert total.many == pytest.approx(sum(one.many for one in steps))
    assert made.for_build is not None
    assert made.build_s is not None
    assert made.build_s == pytest.approx(planner.build_s(planner.of(documents), made.for_build))
    undivided = planner.fit_s(planner.of(documents)) + planner.write_s(planner.of(documents))
    assert made.for_build == MOST_MACHINES or made.build_s <= max(
        8 * 3600 * (1 + 1e-9), undivided + 0.011 * total.one
    )
    for one in made.figures:
        assert 0 < one.one < float("inf")


def test_where_ray_and_milvus_begin_to_pay(model: Model) -> None:
    asked = Asked(Workload(10**9, 768), MACHINE, tokens_per_s=1e5)
    made, planner = plan(model, asked), Planner(model, asked)
    build, memory = made.ray_from, made.milvus_from
    assert build
    assert memory
    shorter, longer = (planner.build_s(planner.of(share * build)) for share in (0.9, 1.1))
    assert shorter < 8 * 3600 < longer
    less, more = (model.index_bytes(planner.of(share * memory)) for share in (0.9, 1.1))
    assert less < MACHINE.ram < more
    later = plan(model, replace(asked, hours=80.0))
    assert later.ray_from is not None
    assert later.ray_from > build
    never = plan(model, Asked(Workload(1000, 384), Machine(10**16, 100_000), hours=1e6))
    assert "Milvus pays: never" in advice(never, model.timed_on)


def test_encoding_is_timed_by_what_the_user_says_or_not_at_all(model: Model) -> None:
    asked = Asked(Workload(1_000_000, 384), MACHINE, machines=2)
    unknown = plan(model, asked)
    assert (unknown.for_build, unknown.build_s, unknown.ray_from) == (None, None, None)
    names = [one.name for one in unknown.figures]
    assert not {"build: encoding", "build in all"} & {*names}
    known = plan(model, replace(asked, tokens_per_s=1e5))
    encoding = figure(known, "build: encoding")
    assert (encoding.one, encoding.many) == (1000, 500)
    given = plan(model, replace(asked, workload=replace(asked.workload, tokens=0)))
    assert figure(given, "build in all").one == pytest.approx(
        sum(figure(unknown, f"build: {part}").one for part in ("fitting", "coding", "writing"))
    )


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (999.6e6, "bytes", "1 GB"),
        (1234, "bytes", "1.23 kB"),
        (80 * 60, "s", "80 min"),
        (95 * 60, "s", "1.58 h"),
        (5 * 86_400, "s", "5 days"),
        (0.2345, "s", "234 ms"),
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
