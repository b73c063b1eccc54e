"""Tables as the texts of the sources have them: read apart from `published.toml`, to compare."""

from __future__ import annotations

import math
import re

Row = dict[str, float]
"""Column -> figure."""
SEVEN = ("STS-B", "STS12", "STS13", "STS14", "STS15", "STS16", "SICK-R")
HEADS = {"STSB": "STS-B", "SICK": "SICK-R", "Avg.": "average", "Average": "average"}
HEADS |= {"PAWSX": "PAWS-X", "STS-B": "STS-B", "Accuracy": "accuracy"}
"""Heads of columns -> what `published.toml` calls them."""
SPELLED = {"WhiteningBERT (PLM=": "", "), token=": ", ", "layer=": "", "SBERT WK": "SBERT-WK"}
SPELLED |= {", whitening=F": "", ", whitening=T": ", whitening"}
"""What stands in the names of Huang et al. -> what stands in ours."""
CELL = r"<t[dh](?: [^>]*)?>(.*?)</t[dh]>"


def su_rows(text: str, label: str) -> list[tuple[str, Row]]:
    """The lines of a table that ends at its label; the model in a name is misread, so it goes."""
    part = text[: text.index(f"{label}: Results")].rpartition("Table 1: Results")[2]
    rows = []
    for line in part.splitlines():
        # Arrows behind a figure were read as (7), (1), )) and the like; one figure lost its dot.
        found = re.findall(r"(?<= )(\d\d)\.?(\d\d?)(?![\d-])", line)
        if len(found) == len(SEVEN):
            name = line[: line.index(f" {found[0][0]}")]
            figures = [float(f"{whole}.{part}") for whole, part in found]
            rows.append((without_model(name), dict(zip(SEVEN, figures, strict=True))))
    return rows


def without_model(name: str) -> str:
    """What is done to the vectors of a model.

    >>> without_model("BERThas.-flow (NLI)"), without_model("BERT-base-flow (NLI)")
    ('flow (nli)', 'flow (nli)')
    """
    known = name.lower().replace("-base", "").replace("-large", "").replace(" (li et al.)", "")
    return known.partition("-")[2].strip() or known


def huang_rows(text: str, label: str) -> list[tuple[str, Row]]:
    """The lines of a table in HTML; a heading within it stands before the names below it."""
    part = text[: text.index(f"\n{label}: ")]
    table = part[part.rindex("<table") : part.rindex("</table>")]
    rows, heading, heads = [], "", list[str]()
    for line in re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL):
        name, *cells = (re.sub("<.*?>", "", cell) for cell in re.findall(CELL, line, re.DOTALL))
        if not heads:
            heads = [_head(cell) for cell in cells]
        elif not cells:
            heading = "" if name == "Baselines" else f"{name}, "
        else:
            figures = [_figure(cell) for cell in cells]
            system = re.sub(r" \([^()]*\d{4}\)", "", heading + name)
            for old, new in SPELLED.items():
                system = system.replace(old, new)
            rows.append((system, dict(zip(heads, figures, strict=True))))
    return rows


def su_2022_rows(text: str, label: str) -> list[tuple[str, Row]]:
    """Lines of an array in LaTeX, whose cells are plain / whitened / whitened and cut."""
    part = text[text.index(rf"\text{{{label}") :]
    heads = [_head(head) for head in re.findall(r"\\text\{([\w-]+)\}", part.split(r"\hline")[1])]
    one, zero = (_triples(part, line) for line in (r"\beta=\gamma=1 &", r"\beta=\gamma=0 &"))
    names = ("as it is", "beta = gamma = 1", "beta = gamma = 1, 256")
    rows = [(name, [cell[i] for cell in one]) for i, name in enumerate(names)]
    rows.append(("beta = gamma = 0, 256", [cell[2] for cell in zero]))
    model = label.partition("-")[0]
    return [(f"{model}, {name}", dict(zip(heads, own, strict=True))) for name, own in rows]


def autoencoder_rows(text: str, label: str) -> list[tuple[str, Row]]:
    """The two results that the blog gives in sentences."""
    words = " ".join(text.split())
    found = [
        re.search(
            r"a Pearson correlation of ([\d.]+)% on the STS benchmark and ([\d.]+)% f", words
        ),
        re.search(r"PCA, with a Pearson correlation of ([\d.]+)% and a MRR of ([\d.]+)%", words),
    ]
    pca, tied = (list(map(float, match.groups())) for match in found if match)
    ndcg = re.search(r"([\d.]+)% net DGC", words)
    assert ndcg
    heads = ("Pearson of similarities", "MRR x 100", "nDCG, % of uncut")
    figures = [*pca, math.nan], [*tied, float(ndcg[1])]
    return [
        (name, dict(zip(heads, own, strict=True)))
        for name, own in zip(("PCA", "autoencoder"), figures, strict=True)
    ]


def _triples(part: str, line: str) -> list[list[float]]:
    cells = part[part.index(line) + len(line) :].split(r"\\")[0].split("&")
    return [list(map(float, re.findall(r"\d\d?\.\d\d", cell))) for cell in cells]


def _head(text: str) -> str:
    return HEADS.get(text, text.replace("STS-1", "STS1"))


def _figure(text: str) -> float:
    """The last of "before → after (gain)", NaN where there is none."""
    found = re.findall(r"(?<![+\d.])\d\d\.\d\d?", text)
    return float(found[-1]) if found else math.nan
