"""A plan compared with what a cluster runs: have, need, change, and risks."""
