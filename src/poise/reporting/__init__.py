"""Records on disk, and the tables and the page that are made of them; nothing here knows about tensors."""
