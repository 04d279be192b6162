"""Programs of the machine: running them, their data as blocks, what they cost."""
