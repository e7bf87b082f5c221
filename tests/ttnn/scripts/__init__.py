"""Small scripts as data, which run on the model and on the real runtime alike."""
