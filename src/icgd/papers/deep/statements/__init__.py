"""The theorems of [DEEP], as printed and corrected."""
