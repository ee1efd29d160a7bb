"""The instructions, a file per family, and the arithmetic they share. opcodes.py registers all of them."""
