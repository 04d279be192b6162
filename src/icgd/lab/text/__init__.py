"""Text in two languages: where it comes from, how it is cleaned, split and cut into tokens."""
