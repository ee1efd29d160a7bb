"""Matrix products for Hopper in CuTe DSL, which several operators share."""
