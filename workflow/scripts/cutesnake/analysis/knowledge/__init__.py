"""docs/knowledge: entries whose claims name their records, checks of them, and what a kernel says of an entry."""
