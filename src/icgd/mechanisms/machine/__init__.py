"""The in-context machine: any training step as one frozen layer with a chain of thought."""
