"""Linear models, section 3."""
