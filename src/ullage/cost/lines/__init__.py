"""One pure function per bill line."""
