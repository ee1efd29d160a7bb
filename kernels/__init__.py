"""Operators and their kernels. A regular package, so that no installed package called `kernels` wins."""
