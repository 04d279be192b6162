"""The loop, two executors, the range watch, and what a run costs."""
