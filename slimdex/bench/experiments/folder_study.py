"""Passages of folders: how Markdown and reStructuredText are cut, named and scored.

Run by ``python -m slimdex.bench.experiments.folder_study FOLDERS MODELS CACHE``: of each
``NAME.tsv`` (question, kind, right files) in a folder FOLDERS, the files of ``NAME/`` are indexed
and searched in several ways, exactly.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from markdown_it import MarkdownIt
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix
from slimdex.retrieval.documents import Document, content
from slimdex.retrieval.encoders.base import encode_queries
from slimdex.retrieval.encoders.opening import open_encoder
from slimdex.retrieval.ingest.encoded_texts import digests_of
from slimdex.retrieval.lexical.fusion import AUTO, Candidates, Fusion, Whole
from slimdex.retrieval.lexical.weighting import WORDED
from slimdex.retrieval.lexical.word_index import ScoredRows, WordIndex
from slimdex.retrieval.passages import Passage, _Cut
from slimdex.retrieval.sources.files.formats import markdown

from ..machine import provenance
from ..rows import FOLDER, ResultsFile, key_of

Scores = NDArray[np.float64]


class _Split(_Cut):
    def _joined(self, pieces: Sequence[Any]) -> list[Any]:
        return list(pieces)


class _Bare(_Cut):
    def _fitting_context(self, headings: tuple[str, ...]) -> tuple[str, int]:
        return super()._fitting_context(())


def _best(scores: Scores, mean: float) -> float:
    return float(scores[0])


def _with_second(scores: Scores, mean: float) -> float:
    return float(scores[0] + 0.2 * max((*scores[1:2] - mean, 0.0)))


def _mean_of_two(scores: Scores, mean: float) -> float:
    return float(scores[:2].mean())


@dataclass(frozen=True)
class Way:
    """A way to cut, name and score: `length` 0 is the encoder's; `titled` chooses the title."""

    cut: type[_Cut] = _Cut
    always: bool = False
    length: int = 0
    titled: Callable[[Document], str] = lambda document: document.title
    score: Callable[[Scores, float], float] = _best
    of_files: bool = False
    plain_words: bool = False


def _path(document: Document) -> str:
    return " ".join(re.split(r"[/_]+", str(PurePosixPath(document.id).with_suffix(""))))


def _stated_title(text: str) -> str:
    """Title from front matter, or the first heading of level 1."""
    front, body = markdown.front_matter.split(text)
    tokens = MarkdownIt("commonmark").parse(body)
    tops = (inline.content for mark, inline in pairwise(tokens) if mark.tag == "h1")
    return str(front.get("title") or next(tops, ""))


WAYS = {
    "as it is": Way(),
    "cut at every heading": Way(_Split, always=True),
    "at most 128 tokens": Way(length=128),
    "no title and headings": Way(_Bare, titled=lambda _: ""),
    "path, title and headings": Way(titled=lambda document: f"{_path(document)} {document.title}"),
    "no title of level 2": Way(titled=lambda document: document.metadata["other"]),
    "words without title and headings": Way(plain_words=True),
    "words of whole files": Way(of_files=True),
    "best and a fifth of the second": Way(score=_with_second),
    "mean of the best two": Way(score=_mean_of_two),
}


@dataclass
class Encoded:
    """An encoder with the vectors of texts that it has encoded, kept in a file."""

    folder: Path
    file: Path
    known: dict[bytes, Matrix] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.encoder: Any = open_encoder(str(self.folder))
        self._counts = dict[str, int]()
        if self.file.exists():
            found = np.load(self.file)
            digests = found["digests"].tobytes()
            each = (digests[i : i + 16] for i in range(0, len(digests), 16))
            self.known = dict(zip(each, found["vectors"], strict=True))

    def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text."""
        new = [text for text in dict.fromkeys(texts) if text not in self._counts]
        if new:
            self._counts.update(zip(new, self.encoder.token_counts(new), strict=True))
        return [self._counts[text] for text in texts]

    def vectors(self, texts: Sequence[str], *, queries: bool = False) -> Matrix:
        """Vectors (n, dim) of texts or queries, of length 1."""
        digests = digests_of([f"query: {text}" if queries else text for text in texts])
        new = [i for i, digest in enumerate(digests) if digest not in self.known]
        if new:
            wanted = [texts[i] for i in new]
            made = encode_queries(self.encoder, wanted) if queries else self.encoder.encode(wanted)
            made /= np.maximum(np.linalg.norm(made, axis=1, keepdims=True), 1e-12)
            self.known |= zip((digests[i] for i in new), made, strict=True)
            rows = np.stack([*self.known.values()])
            np.savez(self.file, vectors=rows, digests=np.frombuffer(b"".join(self.known), np.uint8))
        return np.stack([self.known[digest] for digest in digests])


@dataclass
class FolderOfFiles:
    """A folder's documents, and its questions with the ids of the right ones."""

    path: Path

    @cached_property
    def documents(self) -> list[Document]:
        """Documents, in order, with the title without headings of level 2 as metadata."""
        found = list[Document]()
        for file in sorted(self.path.resolve().rglob("*")):
            if file.suffix in (".md", ".rst"):
                text = file.read_text(encoding="utf-8")
                is_rst = file.suffix == ".rst"
                extract = markdown.read_rst(text) if is_rst else markdown.read(text)
                other = extract.title if is_rst else _stated_title(text)
                titles = [title or file.stem for title in (extract.title, other)]
                id = file.relative_to(self.path.resolve()).as_posix()
                found.append(
                    Document(id, extract.text, titles[0], {"other": titles[1]}, extract.parts)
                )
        return [document for document in found if document.text]

    @cached_property
    def questions(self) -> list[tuple[str, set[str]]]:
        """Questions, and the ends of the right ids."""
        lines = self.path.with_suffix(".tsv").read_text(encoding="utf-8").splitlines()
        fields = [line.split("\t") for line in lines]
        return [(question, {*files}) for question, _, *files in fields]


def ranks(folder: FolderOfFiles, way: Way, encoded: Encoded) -> dict[str, NDArray[np.int64]]:
    """Rank of the first right file of each question (q,), from 0, by default and by meaning."""
    length = way.length or encoded.encoder.max_length
    cuts = list[tuple[int, Passage]]()
    for i, document in enumerate(folder.documents):
        title = way.titled(document)
        if not way.always and encoded.count([content(title, document.text)])[0] <= length:
            cuts.append((i, Passage(0, len(document.text), title)))
            continue
        cut = way.cut(title, document.text, encoded.count, length)
        cuts += ((i, each) for each in cut.passages(document.parts))
    texts = [passage.content(folder.documents[i].text) for i, passage in cuts]
    vectors, owners = encoded.vectors(texts), np.array([i for i, _ in cuts])
    queries = encoded.vectors([question for question, _ in folder.questions], queries=True)
    ids, words = [folder.documents[i].id for i in owners], texts
    if way.plain_words:
        words = [folder.documents[i].text[p.start : p.end] for i, p in cuts]
    if way.of_files:
        ids = [document.id for document in folder.documents]
        words = [document.content for document in folder.documents]
    with TemporaryDirectory() as temporary:
        index = WordIndex.create(Path(temporary) / "words", zip(ids, words, strict=True))
        out: dict[str, list[int]] = {AUTO: [], "off": []}
        for (question, right), query in zip(folder.questions, queries, strict=True):
            cosines, mean = vectors @ query, float(vectors.mean(axis=0) @ query)
            owned = owners
            if way.of_files:
                of_file = np.full(len(ids), -1, np.float32)
                np.maximum.at(of_file, owners, cosines)
                cosines, owned = of_file, np.arange(len(ids))
            found = _candidates(cosines, mean, index.search(question, WORDED))
            for fusion, scores in ((AUTO, Fusion(AUTO).scores(found)), ("off", found.cosines)):
                order = found.order(scores)
                files, ranked = owned[found.rows[order]], scores[order].astype(float)
                total = {
                    i: way.score(ranked[files == i], mean) for i in dict.fromkeys(files.tolist())
                }
                best = [folder.documents[i].id for i in sorted(total, key=lambda i: -total[i])[:10]]
                hits = (n for n, id in enumerate(best) if any(id.endswith(each) for each in right))
                out[fusion].append(next(hits, 10))
    return {fusion: np.array(each) for fusion, each in out.items()}


def _candidates(cosines: Matrix, mean: float, words: ScoredRows) -> Candidates:
    order = np.argsort(-cosines, kind="stable")[:WORDED].astype(np.int64)
    others = np.setdiff1d(words.rows, order)
    whole = Whole(ScoredRows(cosines[order], order), words, mean, len(cosines))
    return Candidates.joined(whole.near, ScoredRows(cosines[others], others), whole)


def main(folders: str, models: str, cache: str) -> None:
    """Judge all ways; the rows go to the results, the ranks to the cache."""
    results, machine = ResultsFile(FOLDER / "folders.jsonl"), provenance(["tantivy", "openvino"])
    for model in sorted(Path(models).iterdir()):
        encoded = Encoded(model, Path(cache) / f"{model.name}.npz")
        for table in sorted(Path(folders).glob("*.tsv")):
            folder = FolderOfFiles(table.with_suffix(""))
            for name, way in WAYS.items():
                for fusion, found in ranks(folder, way, encoded).items():
                    np.save(Path(cache) / f"{model.name}-{table.stem}-{fusion}-{name}.npy", found)
                    task = {"set": table.stem, "model": model.name, "way": name, "fusion": fusion}
                    row = task | {"key": key_of(task), "queries": len(found)}
                    row |= {
                        "documents": len(folder.documents),
                        "first_share": float(np.mean(found == 0)),
                    }
                    row |= {"recall@5": 100 * float(np.mean(found < 5))}
                    row |= {
                        "mrr@10": 100 * float(np.mean(np.where(found < 10, 1 / (found + 1), 0)))
                    }
                    results.append(row | machine)
                    print(
                        model.name, table.stem, name, fusion, (found == 0).sum(), (found < 5).sum()
                    )


if __name__ == "__main__":
    main(*sys.argv[1:])
