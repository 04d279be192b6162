"""[COT] Gradient descent by a chain of thought."""
