"""The heads of the in-context machine: what its products read and its functions compute, with certificates."""
