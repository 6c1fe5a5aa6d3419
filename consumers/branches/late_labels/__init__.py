"""Labels that come later, in a topic of their own."""
