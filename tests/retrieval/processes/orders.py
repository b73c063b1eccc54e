"""Orders of commits: a dictionary for each order in which several processes may have committed.

A call takes effect at one moment between its beginning and its end. `Orders` keeps every state
that some order of these moments explains (Wing and Gong, 1993); if a call ends with a result that
none explains, something was torn, lost or duplicated. A call that was killed took effect at one
moment, or never does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from slimdex.retrieval.lexical.tokens import stems_of

from .worker import REFUSED, Order

Documents = dict[str, str]


class State(NamedTuple):
    """Documents (id, text), by id, and whether their words are indexed."""

    documents: tuple[tuple[str, str], ...]
    words: bool

    def having(self, documents: Documents) -> State:
        return State(tuple(sorted(documents.items())), self.words)


Outcome = tuple[State, Any]
"""State after a call, and the call's result."""


def _put(state: State, new: Documents) -> Outcome:
    old = dict(state.documents)
    same = sum(old.get(id) == text for id, text in new.items())
    replaced = len(old.keys() & new.keys()) - same
    return state.having(old | new), (len(new) - same, replaced, same)


def _sync(state: State, name: str, new: Documents) -> Outcome:
    kept = {id: text for id, text in state.documents if not id.startswith(name)}
    return state.having(kept | new), None


def _delete(state: State, ids: list[str]) -> Outcome:
    old = dict(state.documents)
    if not old.keys() >= set(ids):
        return state, REFUSED
    return state.having({id: text for id, text in old.items() if id not in ids}), len(ids)


def _delete_where(state: State, n: int) -> Outcome:
    kept = {id: text for id, text in state.documents if len(text) < n or id == "first"}
    return state.having(kept), len(state.documents) - len(kept)


def _search(state: State, where: str | None) -> Outcome:
    least = 0 if where is None else int(where.rpartition(" ")[2])
    return state, tuple(each for each in state.documents if len(each[1]) >= least)


def _search_words(state: State, word: str) -> Outcome:
    (stem,) = stems_of(word)
    found = tuple(each for each in state.documents if stem in stems_of(each[1]))
    return state, found if state.words else REFUSED


def _get(state: State, ids: list[str]) -> Outcome:
    texts = dict(state.documents)
    known = all(id in texts for id in ids)
    return state, tuple(texts[id] for id in ids) if known else REFUSED


def _same(state: State, *_: Any) -> Outcome:
    return state, None


MODEL: dict[str, Callable[..., Outcome]] = {
    "put": _put,
    "sync": _sync,
    "delete": _delete,
    "delete where": _delete_where,
    "compact": _same,
    "reduce": _same,
    "reopen": _same,
    "words": lambda state, on: (state._replace(words=on), None),
    "search": _search,
    "search words": _search_words,
    "get": _get,
    "count": lambda state, n: (state, sum(len(text) >= n for _, text in state.documents)),
    "see": lambda state: (state, state.documents),
    "see copy": lambda state: (state, state.documents),
}
"""Effects of the operations of `worker.py` on a plain dictionary."""
CHANGES = ("put", "sync", "delete", "delete where", "compact", "reduce", "words")


Done = frozenset[tuple[int, Any]]
"""Calls that took effect and have not ended, with their results."""


class Orders:
    """All states that are possible, and the calls that are under way.

    Attributes
    ----------
    history : lines for a message.
    """

    def __init__(self, state: State) -> None:
        self.possible: set[tuple[State, Done]] = {(state, frozenset())}
        self.history = [f"begin {state}"]
        self._orders = dict[int, Order]()
        self._seen = dict[int, Any]()
        self._version = 0

    def begin(self, order: Order) -> tuple[int, int]:
        """A call begins; returns its number, and the version that it sees at least."""
        number = len(self.history)
        self.history.append(f"{number}: {order}")
        self._orders[number] = order
        return number, self._version

    def end(self, number: int, least: int, answer: tuple[int, int, Any, str]) -> None:
        """A call ends; raises `AssertionError` if no order of commits explains its answer."""
        before, after, result, fault = answer
        self.history.append(f"{number} ends {answer}")
        assert not fault, self.message(fault)
        assert least <= before <= after, self.message("older than what was seen before")
        self._version = max(self._version, after)
        if self._orders[number][0].startswith("see"):
            version, result = result
            assert before <= version <= after, self.message(f"version {version}")
            assert self._seen.setdefault(version, result) == result, self.message(
                "two of a version"
            )
        found = {
            (state, done - {(number, result)})
            for state, done in self._reachable()
            if (number, result) in done
        }
        assert found, self.message(f"possible: {self.possible}")
        self.possible = found
        del self._orders[number]

    def die(self, number: int) -> None:
        """A process was killed within a call, which took effect before, or never does."""
        self.history.append(f"{number} killed")
        self.possible = {
            (state, frozenset(each for each in done if each[0] != number))
            for state, done in self._reachable()
        }
        del self._orders[number]

    def message(self, fault: str) -> str:
        return "\n".join([*self.history[-60:], fault])

    def _reachable(self) -> set[tuple[State, Done]]:
        """All states that the calls under way may have led to by now."""
        found, new = set(self.possible), list(self.possible)
        while new:
            state, done = new.pop()
            for number in self._orders.keys() - {number for number, _ in done}:
                name, *values = self._orders[number]
                after, result = MODEL[name](state, *values)
                step = (after, done | {(number, result)})
                if step not in found:
                    found.add(step)
                    new.append(step)
        return found
