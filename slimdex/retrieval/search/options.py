"""Options of a search, each declared once: its name, type, default, bounds and help.

Every interface reads them here: `SearchRequest` and keywords in Python, the command line, and
bodies over HTTP and their client. Imports quickly, for help texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from inspect import Parameter, getdoc, signature
from math import isfinite
from numbers import Integral, Real
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    NamedTuple,
    Protocol,
    TypedDict,
    TypeVar,
    get_args,
    get_type_hints,
)

from slimdex.errors import InputError, short_repr
from slimdex.indexes.options import QUERY_ENCODERS

if TYPE_CHECKING:
    from ..documents import Hit

DOCUMENT = "document"
PASSAGE = "passage"
GROUPS = (DOCUMENT, PASSAGE)
"""Units of hits."""
SEVERAL = Sequence[str]
"""Type of options that can be repeated."""
Function = TypeVar("Function")


class Reranker(Protocol):
    """A model that orders hits again, such as a `CrossEncoder`."""

    def reranked(self, query: str, hits: Sequence[Hit], limit: int | None = None) -> list[Hit]:
        """Sort hits by the model's scores, best first."""


class Option(NamedTuple):
    """An option of a search.

    Attributes
    ----------
    http : another help for the OpenAPI page; None: not offered there.
    expected : the end of an error message, if not made of the bounds.
    least, most, choices : bounds of a number, and possible texts.
    flags, value : names of the option and of its value on the command line, if not the usual ones.
    kind : type, of the dataclass's field.
    """

    default: Any
    help: str
    http: str | None = ""
    expected: str = ""
    least: int | None = None
    most: int | None = None
    choices: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    value: str | None = None
    kind: Any = None

    @property
    def bounds(self) -> str:
        """The expected values, in words."""
        most = "or more" if self.most is None else f"to {self.most}"
        return self.expected or " or ".join(self.choices) or f"{self.least} {most}"

    def check(self, name: str, value: Any) -> None:
        """Raise `InputError` for a value of another type, or out of bounds.

        Unions of several types are left to the code that uses the value.
        """
        kinds = {*get_args(self.kind)} if isinstance(self.kind, UnionType) else {self.kind}
        if value is None and type(None) in kinds:
            return
        kinds.discard(type(None))
        if len(kinds) == 1 and not self._allows(kinds.pop(), value):
            raise InputError(f"{name}={short_repr(value)}; expected {self.bounds}")

    def _allows(self, kind: Any, value: Any) -> bool:
        """True if a value has this type and is within the bounds, or one of the choices."""
        if kind is str:
            return isinstance(value, str) and (not self.choices or value in self.choices)
        if kind == SEVERAL:
            return isinstance(value, list | tuple) and all(isinstance(v, str) for v in value)
        if not isinstance(value, Integral if kind is int else Real):
            return False
        number: Any = value
        is_enough = isfinite(number) and (self.least is None or number >= self.least)
        return bool(is_enough and (self.most is None or number <= self.most))


def option(default: Any, help: str, **facts: Any) -> Any:
    """Declare a field of a dataclass that is an option: see `Option`."""
    return field(default=default, metadata={"option": Option(default, help, **facts)})


@dataclass(frozen=True, eq=False, kw_only=True)
class SearchOptions:
    """Everything about a search but its queries.

    An option that is added here is offered by every interface; whoever answers a request uses it.
    """

    limit: int = option(10, "Hits per query.", least=1, flags=("-n", "--limit"), value="NUMBER")
    where: str | None = option(
        None,
        "A DuckDB condition on the documents' columns: year > 2000.",
        http="A condition on the documents' columns, in SQL.",
        expected="a condition as text, such as 'year > 2000'",
    )
    glob: Sequence[str] = option(
        (),
        "Only files whose path matches one of these patterns: `*.py`.",
        expected="a list of patterns",
        value="PATTERN",
    )
    regex: str | None = option(
        None,
        "Only documents whose text matches: '^def test_'; (?i) ignores case.",
        http="Only documents whose text matches this regular expression (RE2).",
        expected="a regular expression",
        value="PATTERN",
    )
    group_by: str = option(DOCUMENT, "One hit per document or per passage.", choices=GROUPS)
    candidates: int | None = option(
        None,
        "Rows to rescore, at least `limit`; 0: rank by codes alone. By default the index's "
        "setting, or more beyond ten results.",
        expected="0 (rank by codes alone) or more",
        least=0,
    )
    hybrid: str | float = option(
        "auto",
        "Combine with lexical search: auto, as `tune` chose, else by rule; off; rrf, by ranks; "
        "or by a lexical weight from 0 to 1.",
        http="Lexical search beside semantic search: as `slimdex tune` chose, else by rule; "
        "not at all; by ranks; or by a weight.",
        least=0,
        most=1,
        choices=("auto", "off", "rrf"),
        value="auto|off|rrf|WEIGHT",
    )
    query_encoder: str | None = option(
        None,
        "Encode queries with the index's model or its token table; by default the index's setting.",
        choices=QUERY_ENCODERS,
    )
    min_score: float | None = option(
        None,
        "Leave out hits that score less.",
        http="Smallest score of a hit.",
        expected="a number",
        value="SCORE",
    )
    rerank: Reranker | str | None = option(  # noqa: RUF009, a field
        None,
        "A cross-encoder that reorders the hits.",
        http="Let the service's model (`--rerank`) reorder the first hits; scores are then the "
        "model's.",
        value="MODEL",
    )
    rerank_depth: int = option(
        50, "Hits to rerank; more if `limit` is more.", http=None, least=1, value="N"
    )


class SearchKeywords(TypedDict, total=False):
    """Options that `Collection.search` takes by name, for type checkers."""

    glob: Sequence[str]
    regex: str | None
    group_by: str
    candidates: int | None
    hybrid: str | float
    query_encoder: str | None
    min_score: float | None
    rerank: Reranker | str | None
    rerank_depth: int


def _options_of(options: Any) -> dict[str, Option]:
    """Name -> option, of a dataclass.

    >>> options_of(SearchOptions)["limit"].kind
    <class 'int'>
    """
    hints = get_type_hints(options)
    declared = {}
    for each in fields(options):
        option = each.metadata.get("option")
        if option is not None:
            declared[each.name] = option._replace(kind=hints[each.name])
    return declared


options_of: Callable[[Any], dict[str, Option]] = cache(_options_of)
"""The same, remembered; a decorator would make mypy refuse classes, as unhashable."""


def takes_options(function: Function, options: type = SearchOptions) -> Function:
    """Complete the signature and the docstring of a function that has `**options`.

    >>> def search(query, limit=10, **options): "Search."
    >>> str(signature(takes_options(search)))[:45]
    '(query, limit=10, *, where: str | None = None'
    """
    # Add the options to the signature.
    target: Any = function  # mypy knows no attribute `__signature__`
    original = signature(target)
    parameters = original.parameters.values()
    by_name = {each.name: each for each in parameters if each.kind != each.VAR_KEYWORD}
    for name, each in options_of(options).items():
        facts: Any = {"default": each.default, "annotation": each.kind}
        by_name.setdefault(name, Parameter(name, Parameter.KEYWORD_ONLY, **facts))
    target.__signature__ = original.replace(parameters=[*by_name.values()])

    # Add the options to the docstring.
    lines = [f"{name} : {each.help}" for name, each in options_of(options).items()]
    target.__doc__ = "\n".join([getdoc(target) or "", "", "Options", "-------", *lines])
    return function
