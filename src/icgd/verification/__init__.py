"""Programs against the oracle: step by step, round by round, theorem by theorem."""
