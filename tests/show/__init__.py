"""Tests of printing and figures, on their text and marks, with a minimal tensor."""
