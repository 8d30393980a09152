"""A training script for a plan of Headroom: model, parallelism, optimizer and loop, as the frameworks' own documentation writes them."""
