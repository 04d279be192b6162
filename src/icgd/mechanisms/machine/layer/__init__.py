"""The literal layer: what the instructions of a tape need, as gates, heads and units of one frozen layer."""
