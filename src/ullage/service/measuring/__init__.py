"""Which load test to run next on a pool's replica, and the replicas that it needs by the tests so far."""
