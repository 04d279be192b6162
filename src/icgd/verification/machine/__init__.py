"""Is this program the training step, or the function, that it was compiled from?"""
