"""What `test_milvus_standalone` asks of a server, in the namespace in which that runs."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

from slimdex.indexes.errors import InputError
from slimdex.indexes.execution.progress import listening
from slimdex.retrieval.cluster.milvus_fields import ID_FIELD
from slimdex.retrieval.cluster.milvus_filter import translated
from slimdex.retrieval.cluster.milvus_push import PushOptions, push
from slimdex.retrieval.cluster.milvus_search import MilvusCollection
from slimdex.retrieval.cluster.milvus_server import Server
from slimdex.retrieval.cluster.milvus_verification import pushed_faults
from slimdex.retrieval.collection import Collection
from tests.chance import CHANCE
from tests.encoders import ReadingEncoder
from tests.retrieval.catalog.condition_cases import ATOMS, COLUMNS, expected, made_table
from tests.retrieval.cluster import test_milvus_filter as filters
from tests.retrieval.cluster.servers import await_server

STARTS_SECONDS = 240
CONDITIONS = CHANCE.count(300, 40)
KINDS = CHANCE.sample(("IVF_SQ8", "HNSW", "IVF_PQ", "SCANN", "FLAT"), 1)


class Standalone:
    """The server, which can be killed and started again on the same files."""

    def __init__(self, package: str, folder: str) -> None:
        sys.path.append(package)  # after our own: its dependencies are none of ours
        from milvus import MilvusServer, MilvusServerConfig

        config = MilvusServerConfig(data_dir=folder)
        self.server = MilvusServer(config, wait_for_started=False)
        self.start()

    def start(self) -> None:
        self.server.start()
        self.uri = f"http://127.0.0.1:{self.server.listen_port}"
        await_server(self.uri, STARTS_SECONDS)

    def kill(self) -> None:
        process = self.server.server_proc
        process.kill()
        process.wait()
        self.server.server_proc = None


def conditions(server: Server) -> tuple[int, list[str]]:
    """How many conditions were tried, and those that hold for other documents than in DuckDB."""
    filters.fill(server)
    table = made_table()
    fields, rng, tried, wrong = [ID_FIELD, *filters.FIELDS], random.Random(5), 0, []
    for i in range(CONDITIONS):
        text = " AND NOT ".join(rng.choice(ATOMS) for _ in range(1 + i % 3))
        try:
            filter = translated(text, COLUMNS, fields)
        except InputError:
            continue
        tried += 1
        if filters.found_by(server, filter) != expected(table, text):
            wrong.append(f"{text} -> {filter}")
    server.drop("conditions")
    return tried, wrong


def main(package: str, index: str, folder: str, out: str) -> None:
    """Leave what was found as JSON."""
    standalone, said = Standalone(package, folder), dict[str, Any]()
    asked = ["word8 word3 title", "word100"]
    with Collection.open(index, ReadingEncoder()) as collection:
        with Server(standalone.uri) as server:
            said["version"] = server.can.version
            said["conditions"], said["wrong"] = conditions(server)
            try:
                push(collection, server, options=PushOptions(rescored="there"))
            except InputError as error:
                said["there"] = str(error)
            said["kinds"] = {}
            for kind in KINDS:
                push(collection, server, options=PushOptions(kind))
                said["kinds"][kind] = pushed_faults(Path(index), standalone.uri)
            with MilvusCollection(standalone.uri, index=index, encoder=ReadingEncoder()) as found:
                found.server.consistency = "Strong"
                hits = found.search_many(asked, 7, "n < 90", candidates=1000, hybrid="off")
                said["answers"] = [[hit.id for hit in own] for own in hits]
                said["words"] = refused(lambda: found.search(asked[0], hybrid=0.1))
                said["gone"] = [killed(standalone, lambda: found.search(asked[0]))]
        standalone.start()
        with Server(standalone.uri) as server:
            report = _killer(standalone)
            options = PushOptions("HNSW")
            with listening(report):
                said["gone"].append(refused(lambda: push(collection, server, options=options)))
        standalone.start()
        with Server(standalone.uri) as server:
            push(collection, server, options=PushOptions("HNSW"))
        said["mended"] = pushed_faults(Path(index), standalone.uri)
    standalone.kill()
    Path(out).write_text(json.dumps(said))


def _killer(standalone: Standalone) -> Any:
    def report(stage: str, done: int, total: int) -> None:
        standalone.kill()

    return report


def killed(standalone: Standalone, call: Any) -> str:
    standalone.kill()
    return refused(call)


def refused(call: Any) -> str:
    try:
        call()
    except InputError as error:
        return str(error)
    return "it was answered"


if __name__ == "__main__":
    main(*sys.argv[1:])
