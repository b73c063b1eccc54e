"""Maps from one encoder's vectors to another's, fitted on texts that both encoded."""
