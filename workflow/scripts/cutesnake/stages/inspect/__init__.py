"""Inspect stage: static figures of a build from its artifacts alone, and the roofline from an operator's cost.

`build.inspect_build` and `roofline.roofline` are the stage; the other modules each read one kind of artifact.
"""
