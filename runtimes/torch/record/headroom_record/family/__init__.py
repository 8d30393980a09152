"""Recordings of a family: several recordings of one model type become one, with the configuration's dimensions."""
