"""Retrieval for a language model: passages that answer a question become its prompt.

The model is left to you: print the prompt, or send it to the one that you use.
"""

from slimdex import Collection

PASSAGES = [
    "The library opens at nine on weekdays and at ten on Saturdays. It is closed on Sundays.",
    "A reader's card costs nothing. Bring a letter that shows where you live.",
    "Books are lent for four weeks, films for one. Both can be renewed twice.",
    "A book brought back late costs ten cents a day, and never more than five euros.",
]


def prompt(question: str, collection: Collection, passages: int = 2) -> str:
    """What a language model is asked: the passages nearest to the question, then the question."""
    hits = collection.search(question, limit=passages)
    known = "\n".join(f"[{hit.id}] {hit.text}" for hit in hits)
    return (
        "Answer from these passages only, and name the ones that you use.\n\n"
        f"{known}\n\nQuestion: {question}\nAnswer:"
    )


with Collection.open_or_create("library.index") as library:
    library.add({"id": number, "text": text} for number, text in enumerate(PASSAGES, start=1))
    print(prompt("What is the fine for an overdue book?", library))
