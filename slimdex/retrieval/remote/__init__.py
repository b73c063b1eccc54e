"""Remote: an index of a service, with the interface of a collection."""
