"""One function per bill line, attribution rules, unit economics, commitments."""
