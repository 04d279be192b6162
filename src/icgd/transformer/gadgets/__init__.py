"""Small networks that do one thing, each with a certificate."""
