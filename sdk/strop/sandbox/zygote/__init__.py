"""The far side of the socket: the zygote, its supervisors and the code that nobody trusts."""
