"""Sub-layers of stacks and loops."""
