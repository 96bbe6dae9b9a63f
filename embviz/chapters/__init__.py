"""What chapters measure live and draw: a file a chapter, above charts and explorers."""
