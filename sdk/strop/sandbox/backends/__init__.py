"""Where sandboxes come from: one transport a file, and nothing that runs code beyond it."""
