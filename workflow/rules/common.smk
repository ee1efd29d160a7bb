"""The plan of this run, and what several rules ask of it."""

import sys
from dataclasses import asdict
from pathlib import Path

from snakemake.exceptions import WorkflowError

sys.path[:0] = [workflow.basedir, f"{workflow.basedir}/workflow/scripts"]

from cutesnake import machine, matrix
from cutesnake import config as configuration
from cutesnake.staleness import digest_baked, digest_code, digest_data

try:
    configuration.check(config)
except configuration.ConfigError as error:
    raise WorkflowError(str(error)) from None

MACHINE = machine.probe()
PLAN = matrix.make_plan(config, MACHINE, Path("results"))

BUILD_RECORDS = [f"results/compile/{key}/build.json" for key in PLAN.builds]
INSPECT_RECORDS = [f"results/inspect/{key}.json" for key in PLAN.builds if "inspect" in config["stages"]]
ROOFLINES = [f"results/inspect/{operator}/roofline.json" for operator in config["operators"]]
COMPARISONS = [f"results/compare/{operator}.json" for operator in config["operators"]]


wildcard_constraints:
    operator=r"\w+",
    kernel=r"\w+",
    target=r"sm_\w+",
    variant=r"[\w.-]+",
    workload=r"\w+",
    package=r"[\w-]+",


def build_of(wildcards):
    """The planned build that wildcards name."""
    return PLAN.builds["{0.operator}/{0.kernel}/{0.target}/{0.variant}".format(wildcards)]
