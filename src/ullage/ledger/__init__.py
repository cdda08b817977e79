"""Plans and observations kept over time (SQLite, PostgreSQL)."""
