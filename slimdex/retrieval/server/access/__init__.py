"""Access: who may ask, how often and how much at once."""
