"""Talk to a hub: name, package, push, resolve, install and load environments."""
