"""How long a call takes on a card that is not here: ptxsim's clock asked, and its answer with its band."""
