"""Which instruction serves which tensor operation: one method for each, named after it."""
