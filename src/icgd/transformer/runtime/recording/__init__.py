"""What is kept of a run for the viewer."""
