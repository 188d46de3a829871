"""Samplers around a run: memory, processor time, GPUs, Ray's tasks."""
