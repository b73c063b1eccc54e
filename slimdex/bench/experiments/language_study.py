"""Questions in another language than the documents, asked of an English model.

Run by ``python -m slimdex.bench.experiments.language_study DATA MODEL``: xquad-r-en's sentences
are searched for the same questions in English and in Chinese, which xquad-r-zh has.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.opening import open_encoder

from ..datasets import load_dataset
from ..machine import provenance
from ..rows import FOLDER, ResultsFile, key_of


def main(data: str, model: str) -> None:
    """Judge both languages, by default and by meaning."""
    results, machine = ResultsFile(FOLDER / "languages.jsonl"), provenance(["tantivy", "openvino"])
    english, chinese = (load_dataset(f"xquad-r-{each}", Path(data)) for each in ("en", "zh"))
    asked = {
        language: dict(zip(each.query_ids, each.query_texts, strict=True))
        for language, each in (("English", english), ("Chinese", chinese))
    }
    ids = [id for id in asked["English"] if id in asked["Chinese"]]
    with TemporaryDirectory() as folder:
        encoder = open_encoder(model)
        with Collection.create(Path(folder) / "x.index", encoder) as collection:
            pairs = zip(english.ids, english.texts, strict=True)
            collection.add([Document(id, text) for id, text in pairs])
            for language, texts in asked.items():
                for fusion in ("off", "auto"):
                    found = collection.search_many([texts[id] for id in ids], hybrid=fusion)
                    right = [
                        [hit.id in english.qrels[id] for hit in hits]
                        for id, hits in zip(ids, found, strict=True)
                    ]
                    task = {"set": "xquad-r-en", "model": Path(model).name, "way": language}
                    task |= {"fusion": fusion}
                    row = task | {"key": key_of(task), "queries": len(ids)}
                    row |= {"documents": len(english.ids)}
                    row |= {"first_share": float(np.mean([each[0] for each in right]))}
                    row |= {"recall@10": 100 * float(np.mean([any(each) for each in right]))}
                    results.append(row | machine)


if __name__ == "__main__":
    main(*sys.argv[1:])
