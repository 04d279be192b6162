"""From measured errors and bounds to a verdict."""
