"""Labels that come later, in a topic of their own, and are joined with the features that wait for them."""
