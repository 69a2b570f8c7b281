"""Record batches: their bytes, built, read, checked and compressed."""
