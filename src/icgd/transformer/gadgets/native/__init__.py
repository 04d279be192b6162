"""Kernels in C++, built on first use; without a compiler everything runs in torch operations."""
