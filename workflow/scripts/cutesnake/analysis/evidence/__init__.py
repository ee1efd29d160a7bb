"""Evidence about an operator: live records and recorded sets."""
