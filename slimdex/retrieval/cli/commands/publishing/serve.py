"""`slimdex serve`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from slimdex.indexes.errors import InputError

from ... import console
from ...options.default_index import EXPECTED, default_index
from ...options.opening import SomeDirs, WriteOptions

if TYPE_CHECKING:
    from slimdex.retrieval.server.root_folder import RootFolder
    from slimdex.retrieval.server.running import Listening


@dataclass(frozen=True)
class ListenOptions:
    """Address, tokens and limits of a service."""

    host: Annotated[
        str, "Address to listen on; one that other machines reach needs --token-file."
    ] = "127.0.0.1"
    port: Annotated[int, "Port; 0 takes a free one."] = 8000
    token_file: Annotated[
        Path | None, "A file with lines 'read TOKEN' or 'write TOKEN', which only you can read."
    ] = None
    allow_host: Annotated[
        list[str] | None, "NAME", "A host name that callers may use; can be repeated."
    ] = None
    cors: Annotated[
        list[str] | None, "ORIGIN", "An origin whose pages may call, or *; can be repeated."
    ] = None
    tls_certificate: Annotated[Path | None, "Certificate, a PEM file."] = None
    tls_key: Annotated[Path | None, "Its key, a PEM file; default: in the certificate's file."] = (
        None
    )
    insecure: Annotated[bool, "Take tokens of other machines without TLS."] = False

    def checked(self) -> Listening:
        """Read the tokens, and check the other options against them."""
        from slimdex.retrieval.server.access.hosts import Hosts
        from slimdex.retrieval.server.access.tokens import Tokens
        from slimdex.retrieval.server.running import Listening

        tokens = None if self.token_file is None else Tokens.read(self.token_file)
        hosts = Hosts([*(self.allow_host or []), self.host], self.cors or [])
        tls = (self.tls_certificate, self.tls_key)
        return Listening(self.host, self.port, tokens, hosts, *tls, self.insecure)


@dataclass(frozen=True)
class RootOptions:
    """The folder in which callers create indexes, and how those are encoded."""

    root: Annotated[
        Path | None,
        "FOLDER",
        "A folder whose indexes NAME.index are served, and in which callers with a write token "
        "create and drop indexes.",
    ] = None
    model: Annotated[
        str | None, "The encoder's model for new indexes; default: all-MiniLM-L6-v2."
    ] = None

    def default_indexes(self) -> list[str]:
        """The default index, if there is one, in place of a folder."""
        found = default_index() if self.root is None else None
        return [] if found is None else [str(found)]

    def opened(self, writing: WriteOptions) -> RootFolder | None:
        """Open the folder; the encoder is loaded for the first new index."""
        from slimdex.retrieval.encoders.hub import DEFAULT_MODEL
        from slimdex.retrieval.encoders.opening import open_encoder
        from slimdex.retrieval.server.root_folder import RootFolder

        if self.root is None:
            if self.model is not None:
                raise InputError(f"--model {self.model} without --root; expected both")
            return None
        make_encoder = partial(open_encoder, model=self.model or DEFAULT_MODEL)
        return RootFolder(self.root, make_encoder, writing.wait, writing.shared_filesystem)


def serve(
    listen: ListenOptions,
    root: RootOptions,
    writing: WriteOptions,
    indexes: SomeDirs = None,
    files: Annotated[
        list[Path] | None, "FOLDER", "A folder that callers may sync from; can be repeated."
    ] = None,
    rerank: Annotated[
        str | None, "MODEL", "A cross-encoder that reorders the hits of searches that ask for it."
    ] = None,
) -> None:
    """Serve indexes over HTTP: searches and changes, for programs, people and agents."""
    import logging

    from slimdex.retrieval.collection import Collection
    from slimdex.retrieval.search.reranking import CrossEncoder
    from slimdex.retrieval.server.running import run
    from slimdex.retrieval.server.service import Service, named_places

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    listening = listen.checked()
    places = named_places(indexes or root.default_indexes())
    open_one = partial(
        Collection.open, wait=writing.wait, shared_filesystem=writing.shared_filesystem
    )
    own = root.opened(writing)
    if not places and own is None:
        raise InputError(f"serve: no index given; expected {EXPECTED}, or --root")
    service = Service.open(
        places,
        folders=files or [],
        root=own,
        reranker=None if rerank is None else CrossEncoder(rerank),
        open_one=open_one,
    )
    console.note(f"{', '.join(service.indexes) or 'no index yet'}: Ctrl-C ends it")
    run(service, listening, lambda url: console.line(url))
