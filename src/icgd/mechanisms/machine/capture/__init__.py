"""From a step in Python to one functional graph: traced, cleaned, and compared with eager PyTorch."""
