"""A plan beside what a cluster runs: have, need, change, and what stands against it."""
