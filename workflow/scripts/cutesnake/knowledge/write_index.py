"""Write docs/knowledge/README.md anew from the entries: python -m cutesnake.knowledge.write_index"""

from cutesnake import record
from cutesnake.knowledge.entries import FOLDER, INDEX, index, read_entries

if __name__ == "__main__":
    record.write_text(FOLDER / INDEX, index(read_entries()))
