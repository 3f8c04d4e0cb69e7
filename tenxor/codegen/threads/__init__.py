"""Worker threads, and the work queue through which they take chunks of a loop."""
