"""Exact values beside a program's, step by step."""
