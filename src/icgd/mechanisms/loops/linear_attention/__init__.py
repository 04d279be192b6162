"""Linear attention that appends one token a step."""
