"""Inspect stage: static figures from a build's artifacts, and the roofline.

`build.inspect_build` and `roofline.roofline` are the stage; the other modules each read one kind of artifact.
"""
