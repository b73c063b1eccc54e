"""Suggestions for misspelt names in messages, and for unexpected keyword arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, isfunction, signature
from typing import Any, TypeVar, cast

from slimdex.errors import InputError, short_repr

T = TypeVar("T")
OTHERS = {
    name: tuple(others.split())
    for name, others in {
        "limit": "k top_k topk top n n_results num_results max_results max_num_results count size",
        "where": "filter filters condition expr query_filter",
        "vectors": "embeddings embedding embs",
        "documents": "docs texts items data points rows id ids text",
        "query": "q text query_text query_texts query_vector vector search input question",
        "queries": "query texts query_texts vectors inputs",
        "min_score": "threshold score_threshold cutoff",
        "rerank": "reranker rerank_model",
        "candidates": "num_candidates ef nprobe",
        "k": "n_components dim dims dimensions",
        "dim": "dimension dimensions size",
        "id": "doc_id document_id path file",
        "text": "content body",
        "metadata": "meta payload attributes",
        "to": "format",
        "url": "uri host address path",
        "encoder": "model embedder embedding_function",
        "path": "directory folder persist_directory uri name",
    }.items()
}
"""Our names of parameters -> names of the same parameters in other libraries."""


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """Return the choice that a misspelt word most likely stands for, or None.

    Case is ignored, and so is the difference of "-" and "_".

    >>> nearest("gama", ["beta", "gamma"]), nearest("Top-K", ["top_k"]), nearest("x", ["limit"])
    ('gamma', 'top_k', None)
    """
    folded = dict[str, str]()
    for choice in choices:
        folded.setdefault(_fold(choice), choice)
    close = get_close_matches(_fold(word), folded, n=1, cutoff=0.7)
    return folded[close[0]] if close else None


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return a message's ending that names the nearest choice; "" if none is near.

    >>> did_you_mean("serach", ["add", "search"]), did_you_mean("xyz", ["add", "search"])
    ("; did you mean 'search'?", '')
    """
    near = nearest(word, choices)
    return "" if near is None else f"; did you mean {near!r}?"


def check_choice(name: str, value: object, choices: Iterable[str], others: str = "") -> None:
    """Raise `InputError` unless a value is one of the choices; `others` describes further ones.

    >>> check_choice("reducer", "PCA", ["whitening", "pca"])
    Traceback (most recent call last):
    ...
    slimdex.errors.InputError: reducer='PCA'; expected one of whitening, pca; did you \
mean 'pca'?
    """
    choices = [*choices]
    if value not in choices:
        near = did_you_mean(value, choices) if isinstance(value, str) else ""
        names = ", ".join(choices)
        raise InputError(f"{name}={short_repr(value)}; expected one of {names}{others}{near}")


def _fold(word: str) -> str:
    return word.casefold().replace("-", "_")


def with_suggestions(public: T) -> T:
    """Decorate a function, or the public methods that a class defines: suggest keyword arguments.

    A call with an unexpected keyword raises a `TypeError` that suggests the right one.

    >>> @with_suggestions
    ... def search(query, limit=10): ...
    >>> search("a", top_k=3)
    Traceback (most recent call last):
    ...
    TypeError: search() got an unexpected keyword argument 'top_k'; did you mean 'limit'?
    """
    if isfunction(public):
        return cast(T, _suggesting(public))
    for name, member in list(vars(public).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(member, classmethod | staticmethod):
            setattr(public, name, type(member)(_suggesting(member.__func__)))
        elif isfunction(member):
            setattr(public, name, _suggesting(member))
    return public


def _suggesting(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that its error for an unexpected keyword suggests the right one."""

    @wraps(function)
    def wrapper(*args: Any, **keywords: Any) -> Any:
        try:
            return function(*args, **keywords)
        except TypeError:
            unknown, names = _unknown(function, keywords)
            if not unknown:  # the error has another reason
                raise

            # Python's own message, with a suggestion.
            call = function.__qualname__.removesuffix(".__init__")
            suggestion = suggest_parameter(unknown[0], names - keywords.keys())
            reason = f"{call}() got an unexpected keyword argument {unknown[0]!r}{suggestion}"
            raise TypeError(reason) from None

    return wrapper


def _unknown(function: Callable[..., Any], keywords: Iterable[str]) -> tuple[list[str], set[str]]:
    """Return the keywords of a call that a function doesn't take, and the names of all it takes."""
    parameters = signature(function).parameters.values()
    positional = (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL)
    names = {p.name for p in parameters if p.kind not in positional}
    if any(p.kind == Parameter.VAR_KEYWORD for p in parameters):
        return [], names  # it takes any
    return [name for name in keywords if name not in names], names


def suggest_parameter(word: str, names: Iterable[str]) -> str:
    """Return a message's ending that suggests the right parameter, or names all of them.

    >>> suggest_parameter("filter", ["limit", "where"])
    "; did you mean 'where'?"
    >>> suggest_parameter("lmit", ["limit", "where"])
    "; did you mean 'limit'?"
    >>> suggest_parameter("colour", ["where", "limit"])
    '; expected limit, where'
    """
    # Names of other libraries -> ours.
    ours = dict[str, str]()
    for name in names:
        ours |= dict.fromkeys(OTHERS.get(name, ()), name)
    if word in ours:
        return f"; did you mean {ours[word]!r}?"

    # Otherwise a similar name, or all of them.
    expected = ", ".join(sorted({*names} - {"self", "cls"}))
    return did_you_mean(word, names) or f"; expected {expected or 'none'}"
