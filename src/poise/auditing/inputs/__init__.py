"""What an audit is given: models, weights, pictures, tables, texts."""
