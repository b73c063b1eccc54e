"""Files that commands of the documentation start from: notes, queries, labels and indexes."""

from __future__ import annotations

import json
import random
from pathlib import Path

from tests.retrieval.server.running import WORDS, built

FEW, MANY, QUERIES, LABELLED = 8, 800, 1200, 120
"""Documents of the files, which the default model encodes; of the index, whose word vectors take
no time; queries, as many as a proof of agreement .99 needs; and those that choose a fusion."""


def give(folder: Path) -> None:
    """Write all of it into a folder."""
    chosen = random.Random(5)

    def text(words: int) -> str:
        return " ".join(chosen.sample(WORDS, words))

    def lines(rows: list[dict[str, str]]) -> str:
        return "".join(json.dumps(row) + "\n" for row in rows)

    rows = [{"id": f"n{i}", "text": text(6)} for i in range(MANY)]
    built(folder, rows)
    built(folder, rows[:FEW], "2019")
    (folder / "notes").mkdir()
    (folder / "notes" / "boiler.md").write_text("# Boiler\n\nServiced in May.\n")
    few = rows[:FEW]
    labels = "".join(f"q{i}\tn{i}\t1\n" for i in range(LABELLED))
    texts = {
        "notes.csv": "id,text\n" + "".join(f"{row['id']},{row['text']}\n" for row in few),
        "notes.jsonl": lines(few),
        "first.jsonl": lines(few[::2]),
        "rest.jsonl": lines(few[1::2]),
        "log.txt": "".join(text(3) + "\n" for _ in range(QUERIES)),
        "log.jsonl": lines(
            [{"id": f"q{i}", "text": row["text"][:15]} for i, row in enumerate(rows[:LABELLED])]
        ),
        "labels.tsv": "query-id\tcorpus-id\tscore\n" + labels,
    }
    for name, written in texts.items():
        (folder / name).write_text(written)
    give_set(folder / "my-notes")


def give_set(folder: Path) -> None:
    """Write labelled queries and their documents, in BEIR's layout."""
    (folder / "qrels").mkdir(parents=True)
    texts = {
        "corpus.jsonl": {"1": "The boiler was serviced.", "2": "A plum cake with cinnamon."},
        "queries.jsonl": {"a": "who repaired the heating", "b": "something sweet"},
    }
    for name, by_id in texts.items():
        rows = [json.dumps({"_id": id, "text": text}) + "\n" for id, text in by_id.items()]
        (folder / name).write_text("".join(rows))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\na\t1\t1\nb\t2\t1\n")
