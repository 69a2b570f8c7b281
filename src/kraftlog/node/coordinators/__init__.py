"""Group coordinators of this broker."""
