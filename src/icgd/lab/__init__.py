"""The laboratory: transformers trained on in-context-learning tasks."""
