"""The OpenAPI description: its examples run, and what is answered is as it says."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS as CHECKS_OF_ALL
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.chance import CHANCE, sweep

from ..asking import asking, made
from ..running import built, serving


async def test_the_examples_of_the_description_run(tmp_path: Path) -> None:
    places = {"notes": made(tmp_path / "notes.index")}
    async with asking(places) as (client, _):
        described = (await client.get("/openapi.json")).json()
        tried = []
        for path, methods in described["paths"].items():
            for method, route in methods.items():
                assert route.get("description"), (method, path)
                content = route.get("requestBody", {}).get("content", {})
                for type_, media in content.items():
                    body = _example(described, media)
                    place = path.replace("{name}", "notes").replace("{id}", "7")
                    place = place.replace("{file}", "seven.md")
                    text = body if isinstance(body, str) else json.dumps(body)
                    answer = await client.request(
                        method, place, content=text, headers={"Content-Type": type_}
                    )
                    assert answer.status_code == 200, (path, answer.text)
                    tried.append(path)
        assert len(tried) >= 7


def _example(described: dict[str, Any], media: dict[str, Any]) -> Any:
    if "example" in media:
        return media["example"]
    schema = media["schema"]
    if "$ref" in schema:
        schema = described["components"]["schemas"][schema["$ref"].rsplit("/")[-1]]
    return schema["examples"][0]


CHECKS = [check for check in CHECKS_OF_ALL.get_all() if check is not positive_data_acceptance]
"""All but one: whether a condition, a name or a dimension is right, no schema can say."""


@sweep
def test_answers_are_as_described(tmp_path: Path) -> None:
    """schemathesis makes requests of the description, good ones and bad ones."""
    rows = [{"id": str(i), "text": f"the cat sat {i}", "year": i} for i in range(20)]
    with serving([built(tmp_path, rows)]) as running:
        described = running.client.get("/openapi.json").json()
        schema = schemathesis.openapi.from_dict(described)
        seen = set[int]()

        for operation in CHANCE.sample([*schema.get_all_operations()], 6):
            found = operation.ok()
            assert found is not None
            _try(found.as_strategy(), running.url, seen)
            with suppress(Unsatisfiable):  # nothing can be wrong with a bare GET
                bad = found.as_strategy(generation_mode=GenerationMode.NEGATIVE)
                _try(bad, running.url, seen)
        assert {200, 400, 422} <= seen
        assert running.client.get("/health").status_code == 200


def _try(strategy: Any, url: str, seen: set[int]) -> None:
    @settings(
        phases=[Phase.generate],
        max_examples=CHANCE.examples(4),
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def tried(case: Any) -> None:
        if "name" in (case.path_parameters or {}):
            case.path_parameters["name"] = "notes"  # any other name is refused at once
        answer = case.call(base_url=url)
        seen.add(answer.status_code)
        case.validate_response(answer, checks=CHECKS)

    tried()
