"""One typed record per stage; a module each, shared parts in `common`."""
