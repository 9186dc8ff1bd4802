"""The daemon, sessions with it, and the contexts and devices of sessions."""
