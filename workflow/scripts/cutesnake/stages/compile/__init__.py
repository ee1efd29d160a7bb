"""From a kernel's source to files that a GPU machine loads: fetching, compiling, storing."""
