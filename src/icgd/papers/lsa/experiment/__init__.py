"""Linear attention trained to descend."""
