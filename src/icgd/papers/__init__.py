"""Five papers: their statements checked, their printed forms tried, their experiments repeated."""
