"""Write a message: its bytes from the texts of a form, the preview, and the batch."""
