"""Tests of buffers, the pool that keeps them, and the limit on both."""
