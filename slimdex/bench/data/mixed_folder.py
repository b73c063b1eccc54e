"""Mixed folder: notes, tickets, orders and Python's modules, with paraphrases and names to find.

Private folders mix prose with code and records, where common words of a question are rare: "my" is
in few passages, and "world" in a docstring. Questions about notes share hardly a word with the
note, so that words of other passages match by chance. Questions for codes, surnames, functions and
misspelt ids can be answered by words alone. The texts were written for this set, but for those of
the modules, which are of the running Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from sysconfig import get_path

from slimdex.retrieval.documents import Document

PASSAGE = 900
"""Characters of a passage of a module, at most one line more."""
# fmt: off
MODULES = [
    "base64", "bisect", "calendar", "cmd", "codecs", "collections", "configparser",
    "contextlib", "copy", "csv", "difflib", "dis", "email.message", "filecmp", "fileinput",
    "fnmatch", "fractions", "ftplib", "functools", "getopt", "gettext", "glob", "gzip",
    "hashlib", "heapq", "html.parser", "imaplib", "json.decoder", "mimetypes", "numbers",
    "operator", "pathlib", "platform", "plistlib", "poplib", "pprint", "profile", "queue",
    "random", "sched", "selectors", "shelve", "shlex", "shutil", "smtplib", "socket",
    "statistics", "string", "tempfile", "textwrap", "timeit", "tokenize", "trace", "traceback",
    "urllib.parse", "uuid", "weakref", "webbrowser",
]
# fmt: on

NOTES = {
    "gifts": (
        "Mum turns sixty in March. Ideas: the blue ceramic teapot from the shop in the old "
        "town, a voucher for the botanical garden, a photo album of the grandchildren. She "
        "dislikes perfume.",
        "present for my mother",
    ),
    "salary": (
        "Before the yearly review: collect achievements with figures, look up what the market "
        "pays, name a range first, and stay silent afterwards. A raise of eight percent is "
        "realistic. Ask the manager for a date, not for a promise.",
        "how to negotiate more money with the boss",
    ),
    "dune": (
        "Finished Dune by Frank Herbert. Paul Atreides comes to Arrakis, a desert planet where "
        "water is treasure and giant worms guard the spice. His visions make him the messiah of "
        "the Fremen.",
        "novel about a sandy world and prophecy",
    ),
    "japan": (
        "Japan plans: cherry blossom is at its peak from late March to early April; November "
        "has red maples and dry weather. Avoid Golden Week. Two nights in Kyoto, four in the "
        "capital, one in Hakone.",
        "best time of year to visit Tokyo",
    ),
    "sourdough": (
        "Bread: feed the starter in the evening, mix in the morning, fold four times in two "
        "hours, let it rise in the fridge overnight. Bake in a cast-iron pot at 240 degrees, "
        "lid off after 25 minutes.",
        "baking a loaf without yeast from the shop",
    ),
    "knee": (
        "Physiotherapist about the left knee: the meniscus is irritated, not torn. No running "
        "for six weeks; cycling with low resistance is fine. Squats to ninety degrees only, ice "
        "after exercise.",
        "joint hurts after jogging, what is allowed",
    ),
    "rent": (
        "The landlord may raise the rent by at most fifteen percent in three years. The notice "
        "period is three months. The deposit, two monthly payments, is on a savings account in "
        "both names.",
        "how much more expensive may the flat become",
    ),
    "bees": (
        "Hives in May: look for queen cells every seven days, add a super when the frames are "
        "covered, treat against varroa after the last harvest. The swarm in the apple tree was "
        "caught with a box.",
        "keeping insects that make honey",
    ),
    "guitar": (
        "Practice plan: ten minutes of scales with the metronome, barre chords slowly, then the "
        "bridge of the song until it is clean. Change strings every two months. The teacher "
        "says to relax the left thumb.",
        "learning to play an instrument with six strings",
    ),
    "boiler": (
        "Heating: if radiators stay cold, bleed them and look at the pressure gauge; it should "
        "stand between one and two bar. Top up with the hose under the sink. The service "
        "contract ends in October.",
        "apartment does not get warm in winter",
    ),
    "toddler": (
        "Nina wakes at two every night. The doctor recommends a fixed ritual: bath, book, lamp "
        "off at seven, no screens after five. Let her cry for three minutes before going in, "
        "then five.",
        "child will not sleep through",
    ),
    "vegetables": (
        "Garden: sow carrots in April, tomatoes only after the last frost. Beans need poles. "
        "Slugs dislike coffee grounds and copper tape. Rotate the beds: never potatoes twice in "
        "the same place.",
        "what to plant in spring outside",
    ),
    "will": (
        "Talked to the notary: a handwritten testament is valid if dated and signed. The house "
        "goes to both children in equal parts, the partner keeps the right to live there for "
        "life.",
        "who inherits after death",
    ),
    "interview": (
        "Candidates for the designer role: Amir has the stronger portfolio, Lotte explains her "
        "decisions better. Second round on Thursday with the whole team. Offer must be out by "
        "the end of the week.",
        "whom should we hire",
    ),
    "migraine": (
        "Diary: attacks follow red wine, missed meals and bright screens. Magnesium in the "
        "evening helps a little, triptans within the first hour. Neurologist suggests a beta "
        "blocker for three months.",
        "strong headaches and what triggers them",
    ),
    "wedding": (
        "Seating: keep uncle Bert away from the Hansens. The band starts at nine, the cake is "
        "cut at ten. Vows by heart. Rings are with Jonas. Rain plan: the barn, which holds "
        "eighty guests.",
        "marriage celebration schedule",
    ),
    "car": (
        "The garage says the rear brake pads are worn to two millimetres, and the timing belt "
        "is due at 120,000 km. Estimate: 640 euros. Winter tyres are in the cellar.",
        "what has to be repaired on the vehicle",
    ),
    "french": (
        "Vocabulary method: twenty cards a day with spaced repetition, one podcast while "
        "cooking, an hour of conversation with Claire on Sundays. Subjunctive still shaky. Exam "
        "B2 in June.",
        "getting better at a foreign language",
    ),
    "stars": (
        "Bought a used Dobsonian telescope with eight inches. Saturn's rings are clear at 150 "
        "times; Andromeda is a grey smudge. Let the mirror cool for an hour, and use the red "
        "torch.",
        "watching planets at night",
    ),
    "budget": (
        "Household: fixed costs 1,900, food 600, put 400 into the index fund on the first of "
        "the month, the rest is free. Emergency reserve of five months is complete. Cancel the "
        "second streaming service.",
        "saving and investing regularly",
    ),
    "dog": (
        "Rescue from the shelter: she is afraid of men with hats. Short walks on the lead, "
        "treats for looking at us, never pull her from under the table. Vaccination against "
        "rabies is due in August.",
        "our anxious pet needs training",
    ),
    "flood": (
        "After the storm: water stood ten centimetres in the cellar. Photograph everything for "
        "the insurance, throw away cardboard, run the dehumidifier for two weeks, check the "
        "backflow valve.",
        "damage from heavy rain below the house",
    ),
    "speech": (
        "For the retirement of Mrs Albers: begin with the story of the broken projector, thank "
        "her for the mentoring, mention her orchids. Three minutes, no jokes about age.",
        "farewell words for a colleague",
    ),
    "marathon": (
        "Twelve weeks: three easy runs, one with intervals, a long one on Sunday that grows to "
        "32 kilometres. Carbohydrates two days before. Start slower than it feels right; the "
        "wall comes at thirty.",
        "preparing for a race of 42 km",
    ),
    "smell": (
        "The washing machine stinks: clean the filter, run it empty at ninety degrees with "
        "citric acid, leave the door open. Wipe the rubber seal once a week.",
        "laundry appliance has a bad odour",
    ),
    "choir": (
        "Rehearsals move to Tuesday. Altos learn the second movement of the Requiem, page 40 "
        "on. Concert in the church of St. Anne on the second Sunday of Advent, black clothes.",
        "when do we sing together",
    ),
}
PROBLEMS = (
    "The customer writes: I cannot delete my account, the button does nothing.",
    "After the update the application shows a white page. My colleagues see the same.",
    "Export to CSV takes more than an hour. Is there a best practice for large tables?",
    "The invoice has the wrong year and the wrong address. Please send my documents again.",
    "Login fails with two factors since I have a new telephone.",
    "The search finds old articles first. How can I sort by time?",
    "Printing from the web page cuts the right margin of every sheet.",
    "The scheduled job ran twice at the end of the month; the report counts money double.",
)
# fmt: off
SURNAMES = [
    "Kowalczyk", "Okonkwo", "Lindqvist", "Baptista", "Haraldsen", "Petrosyan", "Nakamura",
    "Vandermeer", "Castellanos", "Dragomir", "O'Sullivan", "Thorvaldsen", "Mbeki", "Zielinski",
    "Ferreira", "Kaminski", "Abernathy", "Rasmussen", "Delacroix", "Yamashita",
]
# fmt: on
GOODS = (
    "desk lamp",
    "office chair",
    "water filter",
    "paper, A4",
    "toner, black",
    "monitor arm",
    "keyboard",
)


def documents() -> Iterator[Document]:
    """Yield the notes, tickets and orders, and passages of the modules."""
    for name, (text, _) in NOTES.items():
        yield Document(f"notes/{name}", text)
    for i in range(40):
        text = f"{PROBLEMS[i % 8]} The log ends with error {code(i)}."
        yield Document(f"tickets/T-{7100 + i}", text)
    for i in range(40):
        goods = f"{1 + i % 5} x {GOODS[i % 7]}, {2 + i % 3} x {GOODS[(i + 3) % 7]}"
        text = f"Order of {SURNAMES[i % 20]}: {goods}. To be sent by mail."
        yield Document(f"orders/ORD-{20400 + 7 * i}", text)
    for module in MODULES:
        for number, text in enumerate(passages(module)):
            yield Document(f"code/{module}/{number}", text)


def queries() -> Iterator[tuple[str, str, str]]:
    """Yield id, text and the document that answers it; ids begin with `meaning` or `name`."""
    for name, (_, text) in NOTES.items():
        yield f"meaning:{name}", text, f"notes/{name}"
    for i in (3, 17, 30):
        yield f"name:{code(i)}", code(i), f"tickets/T-{7100 + i}"
    for i in (2, 23, 39):
        id = f"ORD-{20400 + 7 * i}"
        yield f"name:{id}", id, f"orders/{id}"
    for name in ("sourdogh", "vegtables", "migraene", "marathn"):
        known = {"sourdogh": "sourdough", "vegtables": "vegetables", "migraene": "migraine"}
        yield f"name:{name}", name, f"notes/{known.get(name, 'marathon')}"
    for module, function in (
        ("heapq", "heappushpop"),
        ("textwrap", "fill"),
        ("difflib", "get_close_matches"),
        ("shutil", "copytree"),
        ("statistics", "harmonic_mean"),
    ):
        found = [f"def {function}(" in text for text in passages(module)].index(True)
        yield f"name:{function}", f"{module} {function}", f"code/{module}/{found}"


def code(number: int) -> str:
    """The code of an error.

    >>> code(3)
    'E4031'
    """
    return f"E{4001 + 10 * number}"


def passages(module: str) -> list[str]:
    """The source of a module of the standard library, cut between lines."""
    path = Path(get_path("stdlib"), *module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    texts = [""]
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if len(texts[-1]) > PASSAGE:
            texts.append("")
        texts[-1] += line
    return texts
