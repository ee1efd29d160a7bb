"""How kernels of other people's packages are found: fetched wheels and installed packages."""
