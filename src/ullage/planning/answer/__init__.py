"""The answer of a plan: its verdict, the bridge from traffic to money, and what to do next."""
