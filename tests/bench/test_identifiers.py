"""Questions for identifiers, against texts of which each is the only answer."""

from __future__ import annotations

from slimdex.bench.identifiers import FORMS, identifier_questions
from slimdex.retrieval.documents import Document

TEXTS = {
    "a": "Error E4217: ask Maria Okonjo-Bowman for 1299 of strict_content_type.",
    "b": "Error E4218 of version 2.14.3 costs $15.75, by the Exclusion of Bowmanns.",
    "c": "Error e4218 is exclusive to strict_content, and E42 to 21299.",
    "d": "Version 12.14 costs 15.7 of 5.75.",
}


def test_no_other_text_has_what_a_question_asks_for() -> None:
    """Not E4218 and 1299, which c has too, nor a form of *exclusive* or of *Bowman*."""
    documents = [Document(id, text) for id, text in TEXTS.items()]
    answers = {
        tuple(id.split(":")[:2]): answer for id, _, answer in identifier_questions(documents)
    }
    assert answers == {
        ("code", "E4217"): "a",
        ("person", "Okonjo"): "a",
        ("function", "strict_content_type"): "a",
        ("version", "2.14.3"): "b",
        ("version", "12.14"): "d",
        ("amount", "$15.75"): "b",
        ("number", "21299"): "c",
    }


def test_each_word_is_asked_for_in_every_form() -> None:
    asked = identifier_questions([Document("a", "Call E4217.")])
    assert [text for _, text, _ in asked] == [form.format("E4217") for form in FORMS]
