"""Where this project's own files are."""

from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2]
ROOT = SCRIPTS.parents[1]
SCHEMAS = ROOT / "workflow" / "schemas"
TEMPLATES = ROOT / "workflow" / "report"
