"""Names of libraries that their authors do not promise to keep, each with what uses it."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PRIVATE = {
    ("huggingface_hub.constants", "ENDPOINT"): "slimdex/retrieval/encoders/hub.py",
}
"""Module and name -> the file that uses it."""
TURBOQUANT = {"_codes", "_cnorm", "_vrnorm"}
"""Of an index of turboquant-pro, which has no public size: see `peer_libraries`."""


@pytest.mark.parametrize(("place", "user"), PRIVATE.items(), ids=lambda value: str(value))
def test_a_release_still_has_the_name(place: tuple[str, str], user: str) -> None:
    module, names = place
    library = module.partition(".")[0]
    assert names.split(".")[-1] in (ROOT / user).read_text(), f"{user} no longer uses {names}"
    pytest.importorskip(library, reason=f"{library} is not installed")
    try:
        found = importlib.import_module(module)
        for name in names.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError) as error:
        pytest.fail(f"this {library} has no {module}.{names}, which {user} uses: {error}")


def test_turboquants_arrays_are_what_it_holds() -> None:
    library = pytest.importorskip("turboquant_pro", reason="the extra peers is not installed")
    X = np.random.default_rng(0).standard_normal((200, 16)).astype(np.float32)
    pca = library.PCAMatryoshka(input_dim=16, output_dim=8)
    pca.fit(X)
    index = library.ADCIndex(pca.with_quantizer(bits=4)).add(X)
    missing = [name for name in sorted(TURBOQUANT) if not hasattr(index, name)]
    assert not missing, f"this release of turboquant-pro has no {', '.join(missing)} in ADCIndex"
    assert [len(getattr(index, name)) for name in sorted(TURBOQUANT)] == [200, 200, 200]
