"""The anatomy of a kernel: what its host sets up and what its warps do, read off a build and one watched run."""
