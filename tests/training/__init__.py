"""Tests of networks, optimisers and data."""
