"""Vectors from elsewhere: no encoder, 10,000 of them, 1/64 of the memory, and what that costs."""

import numpy as np

from slimdex import Collection, GivenEncoder

rng = np.random.default_rng(0)
topics = rng.normal(size=(200, 256))
vectors = topics[rng.integers(200, size=10_000)] + 0.7 * rng.normal(size=(10_000, 256))

with Collection.open_or_create("vectors.index", GivenEncoder(256)) as collection:
    documents = [{"id": number, "text": f"document {number}"} for number in range(10_000)]
    collection.add(documents, vectors=vectors.astype(np.float32))

    query = vectors[7].astype(np.float32)
    print("nearest to the vector of document 7:", collection.search(query, limit=1)[0].id)

    costs = collection.info()["memory"]
    print(f"{costs['ram_bytes_per_vector']:.0f} bytes a vector in memory, {256 * 4} uncompressed")
