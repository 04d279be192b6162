"""The transformer: named slots, layers, gadgets, the loop that runs them, and programs."""
