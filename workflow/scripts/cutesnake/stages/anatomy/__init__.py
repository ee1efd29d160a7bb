"""Read a kernel's host setup and warp roles from a build and one run."""
