"""One file per verb: load, call the core, hand back a value. The CLI, the web and `import ullage` all use these."""
