"""Taking in what was recorded elsewhere: one module per form. Which one a file has is seen from what is in it."""
