"""The stages of a run, one package each."""
