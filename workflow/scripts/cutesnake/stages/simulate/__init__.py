"""Cases without a GPU: compiled code executed by ptxsim."""
