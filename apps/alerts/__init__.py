"""What wants a person's look: raised once, cleared when it is over."""
