"""Commands that make an index available to other programs, machines and agents."""
