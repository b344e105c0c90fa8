"""SQLite: one writer, numbered migrations, one module per table family. SQL stays here."""
