"""The theorems of [BRIDGE], as printed and corrected."""
