"""The way to a child and back: connections, delivery, back-pressure. No dialect is known here."""
