"""Commands about an index: its cost, its quality, its settings and its integrity."""
