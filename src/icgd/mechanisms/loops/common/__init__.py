"""What all loops share: codec, parts of layers, codes of positions."""
