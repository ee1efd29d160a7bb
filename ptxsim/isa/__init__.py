"""The instructions, one file per family, and shared arithmetic; opcodes.py registers all."""
