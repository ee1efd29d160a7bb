"""Snakemake script of the rule record: live measurements into recorded/<device>/."""

from pathlib import Path

from cutesnake import record
from cutesnake.recorded import write_recorded

written = write_recorded(Path(snakemake.output.summary).parent, snakemake.params.folder)  # noqa: F821
text = "".join(f"recorded/{device}: {count} records\n" for device, count in sorted(written.items()))
record.write_text(Path(snakemake.output.summary), text)  # noqa: F821
print(text, end="")
