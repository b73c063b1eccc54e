"""Programs of other libraries: index documents on disk, and answer a query in a new process.

Each does this as its library's documentation shows, with the defaults. The file imports nothing of
slimdex, which would take a part of the time:

    python peer_programs.py LIBRARY build FOLDER MODEL DOCUMENTS
    python peer_programs.py LIBRARY search FOLDER MODEL QUERY

DOCUMENTS is a file with an object of id and text a line. A search prints the ids that it found.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

LIMIT = 10


class SentenceTransformers:
    """Saved vectors, compared with the query's in one product."""

    def build(self, folder: Path, model: str, documents: dict[str, str]) -> None:
        """Save the vectors for numpy, and the ids as JSON."""
        vectors = self._encoder(model).encode([*documents.values()], normalize_embeddings=True)
        np.save(folder / "vectors.npy", vectors)
        (folder / "ids.json").write_text(json.dumps([*documents]), encoding="utf-8")

    def search(self, folder: Path, model: str, query: str) -> list[str]:
        """Load all vectors and compare them with the query's."""
        vectors = np.load(folder / "vectors.npy")
        ids: list[str] = json.loads((folder / "ids.json").read_text(encoding="utf-8"))
        scores = vectors @ self._encoder(model).encode(query, normalize_embeddings=True)
        return [ids[row] for row in np.argsort(-scores)[:LIMIT]]

    def _encoder(self, model: str) -> Any:
        # Each program is timed with the imports of its library, and of no other.
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(model)


class Chroma:
    """Chroma on disk; sentence-transformers encodes, since its own model comes from a website."""

    def build(self, folder: Path, model: str, documents: dict[str, str]) -> None:
        """Add documents in batches of the largest size it takes."""
        client, encode = self._client(folder, model)
        collection = client.create_collection("documents", embedding_function=encode)
        ids = [*documents]
        size = client.get_max_batch_size()
        for start in range(0, len(ids), size):
            few = ids[start : start + size]
            collection.add(ids=few, documents=[documents[id] for id in few])

    def search(self, folder: Path, model: str, query: str) -> list[str]:
        """Open the collection and query it with the text."""
        client, encode = self._client(folder, model)
        collection = client.get_collection("documents", embedding_function=encode)
        answer = collection.query(query_texts=[query], n_results=LIMIT)
        return list(answer["ids"][0])

    def _client(self, folder: Path, model: str) -> tuple[Any, Any]:
        # As for the program above.
        import chromadb
        from chromadb.utils.embedding_functions import SentenceTransformerEmbeddingFunction

        quiet = chromadb.Settings(anonymized_telemetry=False)
        client = chromadb.PersistentClient(str(folder), settings=quiet)
        return client, SentenceTransformerEmbeddingFunction(model_name=model)


PROGRAMS: dict[str, SentenceTransformers | Chroma] = {
    "sentence-transformers": SentenceTransformers(),
    "Chroma": Chroma(),
}


def main(library: str, action: str, folder: str, model: str, argument: str) -> None:
    """Build from a file of documents, or print the ids that answer a query as JSON."""
    program = PROGRAMS[library]
    place = Path(folder)
    if action == "search":
        print(json.dumps(program.search(place, model, argument)))
        return
    lines = Path(argument).read_text(encoding="utf-8").splitlines()
    place.mkdir(parents=True)
    program.build(place, model, {each["id"]: each["text"] for each in map(json.loads, lines)})


if __name__ == "__main__":
    main(*sys.argv[1:])
