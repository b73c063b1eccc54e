"""Commands about documents: add, update, find, show and delete them."""
