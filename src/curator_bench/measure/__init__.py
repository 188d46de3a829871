"""What is sampled and looked up around a run: memory, processor time, GPUs, the machine, git."""
