"""What everything stands on: whole files or none, and whether a piece of work fits this machine."""
