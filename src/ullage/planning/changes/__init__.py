"""Two plans and what moved between them, cause by cause."""
