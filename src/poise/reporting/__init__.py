"""Tables, figures and pages made from records on disk; nothing here uses tensors."""
