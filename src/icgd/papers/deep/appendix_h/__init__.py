"""Score functions and diffusion, appendix H."""
