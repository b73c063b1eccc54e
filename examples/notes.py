"""Notes as dicts: an index on disk, a search by meaning, a filter, a change."""

from slimdex import Collection

NOTES = [
    {"id": "boiler", "text": "The boiler was serviced and the valve replaced.", "year": 2023},
    {"id": "cake", "text": "Grandmother's recipe for plum cake with cinnamon.", "year": 1998},
    {"id": "train", "text": "The train to the coast leaves at nine.", "year": 2024},
    {"id": "cat", "text": "Our cat needs her vaccination in spring.", "year": 2024},
]

with Collection.open_or_create("notes.index") as notes:
    notes.add(NOTES)
    for hit in notes.search("when does the heating need maintenance", limit=2):
        print(f"{hit.score:.2f}  {hit.text}")

    print("before 2000:", notes.search("something sweet", where="year < 2000")[0].id)

    notes.add({"id": "train", "text": "The train to the coast leaves at ten now.", "year": 2024})
    notes.delete("cake")
    print(len(notes), "notes; the train:", notes.get("train").text)
