"""Programs of the machine in files: what a config may say, and what building one takes."""
