"""What all experiments share: claims, records, naive predictors, pages."""
