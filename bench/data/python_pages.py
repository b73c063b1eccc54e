"""Python's documentation: its HTML pages, and docstrings whose first sentences ask for them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from slimdex.indexes.errors import InputError
from slimdex.retrieval.documents import Document
from slimdex.retrieval.sources.docstrings import PREFIX, PythonSource
from slimdex.retrieval.sources.files.file_source import FileSource

FEWEST_WORDS = 3
"""Of a sentence that asks for something."""


@dataclass(frozen=True)
class Question:
    """A docstring's first sentence, and where the documentation has what it is of.

    Attributes
    ----------
    name : of the function, class or module.
    page : id of the page with its anchor.
    start, end : characters of the page's text where the anchor's section begins and ends.
    """

    name: str
    text: str
    page: str
    start: int
    end: int


@dataclass(frozen=True)
class Pages:
    """Pages with the questions that they answer."""

    documents: Sequence[Document]
    questions: Sequence[Question]

    @classmethod
    def read(cls, folder: Path) -> Pages:
        """The pages below a folder, asked by this Python's standard library.

        Raises
        ------
        InputError
            If there are no pages, or none has an anchor of the library's names.
        """
        documents = [d for batch in FileSource.of_folder(str(folder)).batches() for d in batch]
        documents = [document for document in documents if document.metadata["kind"] == "html"]
        questions = list(questions_of(documents, first_sentences()))
        if not questions:
            raise InputError(
                f"{folder}: {len(documents)} pages and no anchor of the standard library; expected "
                "Python's documentation in HTML"
            )
        return cls(documents, questions)


def first_sentences() -> Iterator[tuple[str, str]]:
    """Names of the standard library, each with the first sentence of its docstring."""
    for batch in PythonSource(PREFIX).batches():
        for document in batch:
            yield document.id, first_sentence(document.text)


def first_sentence(text: str) -> str:
    """The first sentence or paragraph of a text, on one line.

    >>> first_sentence("Return the absolute\\n  value. The argument may be anything.")
    'Return the absolute value.'
    """
    paragraph = re.split(r"\n\s*\n", text.strip(), maxsplit=1)[0]
    return re.split(r"(?<=[.!?])\s", " ".join(paragraph.split()), maxsplit=1)[0]


def questions_of(
    documents: Sequence[Document], sentences: Iterator[tuple[str, str]]
) -> Iterator[Question]:
    """Those whose name has an anchor in one of the pages, and in no other."""
    places = dict[str, list[tuple[str, int, int]]]()
    for document in documents:
        ends = [part.start for part in document.parts[1:]] + [len(document.text)]
        for part, end in zip(document.parts, ends):  # noqa: B905 - of no parts, no end is wanted
            if part.anchor:
                places.setdefault(part.anchor, []).append((document.id, part.start, end))
    for name, text in sentences:
        found = places.get(name, []) + places.get(f"module-{name}", [])
        if len(found) == 1 and len(text.split()) >= FEWEST_WORDS:
            yield Question(name, text, *found[0])
