"""Plans: what has to hold of any plan, and cases worked by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slimdex.bench.commands.planning import advice, told
from slimdex.bench.planning.plan import Plan
from slimdex.bench.planning.workload import Workload
from slimdex.indexes.errors import InputError

RAM = 64 * 10**9


@given(
    st.integers(1000, 10**12),
    st.sampled_from([64, 384, 768, 1024]),
    st.sampled_from(["auto", "pq", "ivf-pq"]),
    st.integers(10**8, 10**12),
)
def test_an_index_fits_into_as_few_machines_as_can_be(
    documents: int, dim: int, kind: str, ram: int
) -> None:
    workload = Workload(documents, dim, kind=kind)
    plan = Plan(workload, ram)
    assert plan.part.memory <= ram
    if plan.machines > 1:
        assert workload.of(documents / (plan.machines - 1)).memory > ram
    assert workload.of(plan.fitting).memory <= ram
    if plan.milvus_from is not None:
        assert workload.of(plan.milvus_from).memory > ram


def test_memory_by_hand() -> None:
    plan = Plan(Workload(10**9, 768), RAM)
    lists = 244_141
    held = 10**9 * (48 + 8) + lists * (384 * 4 + 16 + 16 * 48) + 64 * 384
    assert plan.workload.memory == held + 4 * 768 * (385 + 769)
    assert (plan.workload.lists, plan.for_memory) == (lists, 1)
    assert (plan.milvus_from or 0) * 56.6 == pytest.approx(RAM, rel=0.01)
    assert Plan(Workload(1000), 10**16).milvus_from is None


def test_hours_of_encoding_by_hand() -> None:
    plan = Plan(Workload(36_000_000, tokens=50), RAM, among=4, tokens_per_s=1e4)
    assert plan.hours(plan.workload) == 50
    assert plan.hours(plan.part) == 12.5
    assert (plan.for_encoding, plan.ray_from) == (7, 8 * 720_000 + 1)
    for documents, machines in ((8 * 720_000, 1), (8 * 720_000 + 1, 2)):
        assert replace(plan, workload=Workload(documents, tokens=50)).for_encoding == machines


def test_hours_are_not_known_without_a_rate() -> None:
    plan = Plan(Workload(10**6), RAM)
    assert (plan.hours(plan.workload), plan.for_encoding, plan.ray_from) == (None, None, None)
    assert not [line for line in advice(plan) if line.startswith("Ray")]
    soon = Plan(Workload(1000), RAM, tokens_per_s=1e12, limit=1e6)
    assert "Ray pays: never" in advice(soon)


def test_there_has_to_be_room_for_a_small_index() -> None:
    held = 4 * 8192 * (5 + 8193) + 1 * (1000 + 16) + 64 * 4
    assert held == 268_633_336
    with pytest.raises(InputError, match="room for the index of 1,000 documents, 268,633,336"):
        Plan(Workload(1000, 8192, k=4), 10**8)


@pytest.mark.parametrize(
    ("size", "said"), [(999.6e6, "1 GB"), (1234, "1.23 kB"), (12e15, "12,000 TB"), (50, "0.05 kB")]
)
def test_units(size: float, said: str) -> None:
    assert told(size) == said
