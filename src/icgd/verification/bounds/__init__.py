"""What an error may be, from weights and values."""
