"""Networks, section 4."""
