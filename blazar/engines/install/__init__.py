"""How engine builds come here: channels, each verified."""
