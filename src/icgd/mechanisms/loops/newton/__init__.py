"""Newton's iteration for the inverse, alone and as a preconditioner."""
