"""Host side: kernel arguments, linking of exported objects, launch capture."""
