"""What records say: evidence, comparisons, changes, knowledge."""
