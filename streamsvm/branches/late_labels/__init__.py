"""Labels that come later, in a log of their own."""
