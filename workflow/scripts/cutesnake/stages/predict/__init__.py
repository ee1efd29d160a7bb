"""Predict by ptxsim's clock how long a call takes on an absent GPU."""
