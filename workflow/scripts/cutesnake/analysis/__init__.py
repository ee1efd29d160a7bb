"""Analysis of records: evidence, comparisons, changes, knowledge."""
