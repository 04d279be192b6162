"""Functions as sums of units, with errors bounded."""
