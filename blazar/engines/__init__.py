"""What each engine kind wants: its launch line, its words when it fails, and which build runs which model."""
