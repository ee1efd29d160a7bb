"""Host side: kernels' arguments, linking of exported objects, and capture of the launches they make."""
