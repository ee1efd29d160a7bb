"""Where this project's own files are."""

import os
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2]
ROOT = SCRIPTS.parents[1]
SCHEMAS = ROOT / "workflow" / "schemas"
TEMPLATES = ROOT / "workflow" / "report"


def use_in_processes() -> None:
    """Have processes started from now on import this checkout's code, whichever is installed."""
    earlier = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([str(ROOT), str(SCRIPTS), *earlier]))
