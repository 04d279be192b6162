"""`icgd run`: a table in, a trained model and a report out."""
