"""The theorems of [LSA], as printed and corrected."""
