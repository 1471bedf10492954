"""What can be read off the frozen layers of an encoder by small classifiers."""
