"""[BRIDGE] In-context learning through networks."""
