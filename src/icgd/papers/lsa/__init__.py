"""[LSA] Linear self-attention that descends in several steps."""
