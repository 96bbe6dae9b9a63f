"""The front page: word vectors of real text and of the same text shuffled, and what the page draws."""
