"""Networks by SGD: one softmax layer and a chain of thought, [COT] section 4."""
