"""Words: the texts that Milvus' BM25 function reads, made of slimdex's own words.

So the same words match as in the local lexical index. The analyzers of Milvus' versions split texts
differently, but all of them keep lower-case ASCII letters and digits together. Other words, and
the names of documents, are replaced by hashes of such characters.
"""

from __future__ import annotations

import re
from base64 import b32encode
from hashlib import blake2b

from ..lexical.tokens import id_terms, name_forms, stemmer, stems_of, words_in
from ..lexical.word_index import MOST_WORDS, NAMED
from .milvus_fields import LONGEST_TEXT

_PLAIN = re.compile(r"[a-z0-9]{1,40}")
"""Words that every analyzer keeps; some leave out longer ones."""
_HASH_BYTES = 5
"""Of a word: Milvus itself keeps four."""


def words_text(id: str, content: str) -> str:
    """Names and stems of the words of a row, for BM25.

    >>> words_text("cat.md", "A cat, a cat")
    'om3wud6i a cat a cat cat md 2jrpcvwp'
    """
    names, words_of_id = id_terms(id)
    stems = stemmer().analyze(f"{words_in(content)} {words_of_id}")
    return " ".join([*map(_name, names), *map(_word, stems)])


def fitting(text: str) -> str:
    """The words of a text that fit into a field of Milvus."""
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT + 1].rpartition(" ")[0]


def query_texts(query: str) -> list[str]:
    """The words of a query with its names, as it is searched; and its names alone, if it has any.

    >>> [text[:26] for text in query_texts("cat.md")], query_texts("...")
    (['cat md 2jrpcvwp om3wud6i o', 'om3wud6i'], [])
    """
    words = [_word(word) for word in dict.fromkeys(stems_of(query))][:MOST_WORDS]
    names = [_name(form) for form in name_forms(query)]
    texts = [" ".join([*words, *(int(NAMED) * names)]), " ".join(names)]
    return [text for text in texts if text] if words else []


def _word(word: str) -> str:
    return word if _PLAIN.fullmatch(word) else _hash(word)


def _name(name: str) -> str:
    return _hash(f"name {name}")  # no word has a space


def _hash(text: str) -> str:
    return b32encode(blake2b(text.encode(), digest_size=_HASH_BYTES).digest()).decode().lower()
