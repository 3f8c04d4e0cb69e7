"""Random programs of views, arithmetic and writes, compared with an eager model on flat lists."""
