"""One module per bug."""
