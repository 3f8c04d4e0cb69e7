"""Showing, tested on the text and the marks that come out, with the least that counts as a tensor."""
