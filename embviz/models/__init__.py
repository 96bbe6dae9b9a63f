"""Small models, each in a file that is read in one sitting."""
