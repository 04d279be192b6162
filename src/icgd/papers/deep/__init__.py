"""[DEEP] Deep optimizers in context."""
