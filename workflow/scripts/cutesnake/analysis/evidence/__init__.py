"""Everything that is known about an operator: live records and recorded sets."""
