"""Rewrite docs/knowledge/README.md: python -m cutesnake.analysis.knowledge.write_index."""

from cutesnake.analysis.knowledge.entries import FOLDER, INDEX, index, read_entries
from cutesnake.model import record

if __name__ == "__main__":
    record.write_text(FOLDER / INDEX, index(read_entries()))
