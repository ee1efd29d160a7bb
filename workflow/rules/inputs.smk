"""Inputs of rules, which also say what products are made from."""

from cutesnake.planning import marks
from cutesnake.planning.outputs import Product

READS = {}  # pattern of a rule's output -> the rule's inputs by name


def inputs(products, **named):
    """Return the inputs of the job that makes these products, and the input that says whether it must run.

    Where it has to, or has not run yet, nothing is `ancient`: Snakemake does not look at a job that follows from one
    that runs, not even for missing outputs.
    """
    patterns = [products] if isinstance(products, str) else products
    READS.update(dict.fromkeys(patterns, named))

    def among(names, wildcards):
        return any(pattern.format(**wildcards) in names for pattern in patterns)

    def again(wildcards):
        return among(MADE_AGAIN, wildcards)

    def dated(paths):
        def found(wildcards):
            files = resolved(paths, wildcards)
            return files if again(wildcards) or among(MISSING, wildcards) else ancient(files)

        return found

    marked = {"state": lambda wildcards: marks.STALE if again(wildcards) else marks.CURRENT}
    return marked | {name: dated(paths) for name, paths in named.items()}


def resolved(paths, wildcards):
    """Return the file or files of an input of `inputs`."""
    named = paths(wildcards) if callable(paths) else paths
    return named.format(**wildcards) if isinstance(named, str) else [path.format(**wildcards) for path in named]


def of_rule(pattern, names, stage, recipe, **more):
    """Return the product of an output whose wildcards are `names`; it is made from what its rule reads."""
    files = [resolved(paths, Names(names)) for paths in READS[pattern].values()]
    reads = [path for one in files for path in ([one] if isinstance(one, str) else one)]
    return Product(pattern.format(**names), stage, recipe, reads, **more)


def made_from(wildcards, output):
    """Return the provenance of a job's results."""
    product = next((PRODUCTS[path] for path in output if path in PRODUCTS), None)
    return {"recipe": product.recipe(), "files": product.named} if product else {}
