"""Networks trained in context and by training, appendix G."""
