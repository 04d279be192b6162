"""The same layer run in several ways."""
