"""Training transformers on in-context-learning tasks: models, tasks, a flat trainer, checkpoints."""
