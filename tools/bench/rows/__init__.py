"""What is measured: one module for each kind of row, and the table of all of them."""
