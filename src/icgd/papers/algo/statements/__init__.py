"""The theorems of [ALGO], as printed and corrected."""
