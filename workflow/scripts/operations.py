"""Snakemake script of the rule operations: the table of operations and its page."""

from cutesnake import record
from cutesnake.fault import one_line
from cutesnake.operations.page import write_page
from cutesnake.operations.table import make_table, read_builds, read_operations

with one_line("operations", snakemake.log[0]):
    codes = read_builds(snakemake.input.builds, snakemake.input.checks)
    table = make_table(read_operations(snakemake.input.operations), codes)
    record.write("operations", snakemake.output.record, table)
    write_page(table, snakemake.params.front, snakemake.output.page)
