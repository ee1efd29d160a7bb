"""Rule keep: write live measurements into recorded/<device>/."""

from pathlib import Path

from cutesnake.analysis.evidence.recorded_set import refuse_mocked_machine, write_recorded
from cutesnake.model import record
from cutesnake.runtime.errors import one_line

with one_line("keep", snakemake.log[0]):
    refuse_mocked_machine()
    written = write_recorded(
        Path(snakemake.output.summary).parent,
        snakemake.params.folder,
        replace_passing=snakemake.config.get("keep", {}).get("replace_passing", False),
    )
    text = "".join(f"recorded/{device}: {rows}\n" for device, rows in sorted(written.items()))
    record.write_text(Path(snakemake.output.summary), text)
    print(text, end="")
