"""What a host gives to those who must not do things themselves."""
