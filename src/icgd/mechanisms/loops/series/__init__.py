"""Series and chains: tokens that copy from earlier tokens first."""
