"""The models of the laboratory: trained, on the attention kernel of those that are compiled."""
