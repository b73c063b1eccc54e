"""Forms of requests and answers: OpenAI's, Ollama's, and text-embeddings-inference's."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any

import numpy as np

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, as_matrix

from .connection import NEVER, JsonServer, RefusedError


@dataclass(frozen=True)
class Api:
    """Form of the requests and answers of a kind of server.

    Attributes
    ----------
    path : of the URL that encodes.
    body : of the request, without model, dimensions and texts.
    texts : the texts' name in it.
    vectors : finds the vectors in an answer.
    models : lists the server's models.
    longest : most tokens of a text, which a server may state; None if it does not.
    """

    path: str
    body: dict[str, Any]
    texts: str
    vectors: Callable[[Any], list[Any]]
    models: Callable[[JsonServer], list[str]]
    longest: Callable[[JsonServer, str], Any]


def _openai_vectors(answer: Any) -> list[Any]:
    """Return the vectors of an answer in the order of the texts; servers may reorder them."""
    items = sorted(answer["data"], key=lambda item: item.get("index", 0))
    return [_numbers(item["embedding"]) for item in items]


def _numbers(embedding: Any) -> Any:
    """Return a list of floats unchanged, and decode little-endian float32 in base64."""
    if isinstance(embedding, str):
        return np.frombuffer(b64decode(embedding, validate=True), dtype="<f4")
    return embedding


def _openai_models(server: JsonServer) -> list[str]:
    return [model["id"] for model in server.ask("/models")["data"]]


def _openai_longest(server: JsonServer, model: str) -> Any:
    """Return the maximum length of a text in tokens, if the server reports it.

    vLLM reports `max_model_len`, and llama.cpp the length that the model was trained with.
    """
    models = server.ask("/models")["data"]
    description = next((other for other in models if other["id"] == model), models[0])
    return description.get("max_model_len") or (description.get("meta") or {}).get("n_ctx_train")


def _ollama_models(server: JsonServer) -> list[str]:
    return [model["name"] for model in server.ask("/api/tags")["models"]]


def _ollama_longest(server: JsonServer, model: str) -> Any:
    facts = server.ask("/api/show", {"model": model})["model_info"]
    # The key starts with the architecture, as in bert.context_length.
    return next(value for name, value in facts.items() if name.endswith(".context_length"))


_OPENAI = (_openai_vectors, _openai_models, _openai_longest)
APIS = {
    "openai": Api("/embeddings", {"encoding_format": "base64"}, "input", *_OPENAI),
    "openai-floats": Api("/embeddings", {}, "input", *_OPENAI),
    "ollama": Api(
        path="/api/embed",
        body={"truncate": True},
        texts="input",
        vectors=lambda answer: list(answer["embeddings"]),
        models=_ollama_models,
        longest=_ollama_longest,
    ),
    "tei": Api(
        path="/embed",
        body={"truncate": True},
        texts="inputs",
        vectors=list,
        models=lambda server: [server.ask("/info")["model_id"]],
        longest=lambda server, _: server.ask("/info")["max_input_length"],
    ),
}
"""Name, as an index records it -> API."""
_NO_ROUTE = re.compile(r": 40[45] '?(404 page |file )?(not found|method not allowed)'?$", re.I)
"""End of an error about a path that the server lacks."""
_MALFORMED = (AttributeError, KeyError, IndexError, StopIteration, TypeError, ValueError)


@dataclass(frozen=True)
class ServedModel:
    """A model of a server, and the API by which it is asked."""

    server: JsonServer
    api: str
    name: str
    dimensions: int | None = None

    def encode(self, texts: Sequence[str], stopped: Event = NEVER) -> Matrix:
        """Encode texts to vectors (n, d), by one request.

        Raises
        ------
        RefusedError
            If the server refuses the request, or its answer has another form.
        InputError
            If the answer is not one finite vector for each text.
        """
        api = APIS[self.api]
        body = api.body | {"model": self.name, api.texts: list(texts)}
        if self.dimensions is not None:
            body["dimensions"] = self.dimensions

        # Send the request, and check that it returns a vector for each text.
        answer = self.server.ask(api.path, body, stopped)
        place = f"{self.server.url}{api.path}"
        try:
            rows = api.vectors(answer)
        except _MALFORMED:
            raise RefusedError(f"{place}: an answer without embeddings", 200) from None
        if len(rows) != len(texts):
            raise InputError(f"{place}: {len(rows)} vectors; expected {len(texts)}, one per text")
        return as_matrix(rows, dim=self.dimensions, name=place)

    def longest(self) -> int | None:
        """Most tokens of a text, if the server states it."""
        try:
            tokens = APIS[self.api].longest(self.server, self.name)
        except RefusedError:
            return None
        except InputError:  # a ValueError, but not from a malformed answer
            raise
        except _MALFORMED:
            return None
        return tokens if type(tokens) is int and tokens > 0 else None


def find_model(
    url: str,
    texts: Sequence[str],
    *,
    model: str | None = None,
    api: str | None = None,
    dimensions: int | None = None,
    key: str | None = None,
) -> tuple[ServedModel, Matrix]:
    """Request the vectors of some texts with each API in turn, until the server answers.

    The model defaults to the only one on the server. Returns the model with the API that answered,
    and the vectors (n, d).

    Raises `InputError` if none answers, if a key is missing, or if there are several models and
    none is named.
    """
    if api is not None and api not in APIS:
        raise InputError(f"api={api!r}; expected {', '.join(APIS)}")
    refused = dict[str, None]()  # a set that keeps its order
    for base, name in _candidates(url) if api is None else [(url, api)]:
        server = JsonServer(base, key)
        try:
            served = ServedModel(server, name, model or _only_model(server, name), dimensions)
            return served, served.encode(texts)
        except RefusedError as error:
            if error.status in (401, 403):
                raise InputError(f"{error} (expected a key: a file or the environment)") from None
            refused[str(error)] = None

    # A missing path only means that the server has another API.
    reasons = [line for line in refused if not _NO_ROUTE.search(line)]
    raise InputError("; ".join(reasons) or f"no vectors: {'; '.join(refused)}")


def _candidates(url: str) -> list[tuple[str, str]]:
    """Return base URLs and API names in the order to try them.

    OpenAI's API comes first if the URL ends in /v1.

    >>> [base + APIS[api].path for base, api in _candidates("http://h/v1")][::2]
    ['http://h/v1/embeddings', 'http://h/embeddings', 'http://h/api/embed']
    """
    root = url.removesuffix("/v1")
    others = [(root, "ollama"), (root, "tei")]
    openai = []
    for base in (f"{root}/v1", root):
        openai += [(base, "openai"), (base, "openai-floats")]
    return others + openai if url == root else openai + others


def _only_model(server: JsonServer, api: str) -> str:
    """Return the name of a server's model; raise `InputError` if it has none or several."""
    try:
        names = APIS[api].models(server)
    except InputError:  # a ValueError, but not from a malformed answer
        raise
    except _MALFORMED:
        raise RefusedError(f"{server.url}: an answer without models", 200) from None
    if len(names) != 1:
        known = ", ".join(names[:10])
        raise InputError(f"{server.url}: {len(names)} models; expected #NAME of one ({known})")
    return names[0]
