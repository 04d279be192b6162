"""A flat trainer: configs, checkpoints, schedules, presets."""
