"""Which load test to run next on a pool's replica, and what the tests so far say of the replicas that it needs."""
