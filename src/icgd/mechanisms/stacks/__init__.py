"""Networks by full-batch gradient descent: a stack of layers a step, backward or forward mode."""
