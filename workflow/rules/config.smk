"""config/config.yaml, read strictly before Snakemake reads it: that tells neither a line nor, at times, the file."""

import sys
from pathlib import Path

# Of this file, and not `workflow.basedir`: another Snakefile may include this workflow or use it as a module.
ROOT = Path(str(workflow.current_basedir)).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "workflow/scripts")]

from cutesnake.model import paths
from cutesnake.planning import strict_yaml

paths.use_in_processes()

try:
    whole = strict_yaml.read(Path(ROOT, "config/config.yaml"), "config/config.yaml")
except strict_yaml.YamlError as error:
    sys.exit(str(error))
if not isinstance(whole, dict):
    sys.exit("config/config.yaml: it must have keys at its top level, see config/README.md")
