"""From a captured graph to a tape: one file per pass, each a function from tape to tape."""
