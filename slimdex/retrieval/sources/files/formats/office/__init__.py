"""Office files: Word documents, presentations and OpenDocument."""
