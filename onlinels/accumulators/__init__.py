"""What is remembered of the stream: every accumulator has the interface in base.py."""
