"""Quality: how well an index finds documents, and when to fit it again."""
