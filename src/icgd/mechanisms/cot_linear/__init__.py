"""Linear models by gradient descent: one layer and a chain of thought, [COT] section 3."""
