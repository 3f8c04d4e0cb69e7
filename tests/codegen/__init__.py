"""Tests of the back ends; a package, so that its modules share helpers."""
