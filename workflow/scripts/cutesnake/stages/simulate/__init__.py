"""Cases without a card: compiled code executed by ptxsim."""
