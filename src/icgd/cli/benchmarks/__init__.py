"""Benchmarks: what `icgd bench` measures."""
