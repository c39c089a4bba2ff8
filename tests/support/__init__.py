"""What several tests share: laws, drawn data, reference implementations, models, files, faults."""
