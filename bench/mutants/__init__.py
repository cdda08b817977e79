"""Planted bugs outside the kernel, and which tests see them (bench/mutation.py)."""
