"""config/config.yaml, read strictly before Snakemake reads it: that tells neither a line nor, at times, the file."""

import os
import sys
from pathlib import Path

# This folder's code, here and in what is started from here, whichever checkout is installed.
SOURCES = [workflow.basedir, f"{workflow.basedir}/workflow/scripts"]
sys.path[:0] = SOURCES
os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*SOURCES, *filter(None, [os.environ.get("PYTHONPATH")])]))

from cutesnake.planning import strict_yaml

try:
    whole = strict_yaml.read(Path(workflow.basedir, "config/config.yaml"), "config/config.yaml")
except strict_yaml.YamlError as error:
    sys.exit(str(error))
if not isinstance(whole, dict):
    sys.exit("config/config.yaml: it must have keys at its top level, see config/README.md")
