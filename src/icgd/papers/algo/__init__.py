"""[ALGO] Looped transformers as designed algorithms."""
