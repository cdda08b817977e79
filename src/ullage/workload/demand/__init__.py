"""What is asked of each pool: stated or measured traffic, routes between models, tools that tasks wait for."""
