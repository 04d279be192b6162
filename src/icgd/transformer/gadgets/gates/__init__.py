"""Gates: exact little networks of ReLUs."""
