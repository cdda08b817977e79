"""Runs in the environment of service-capacity-modeling: machines for a stateless service at the question's rate."""

from __future__ import annotations

import json
import sys

# This file is called as the package is; its own folder would hide it.
sys.path.pop(0)
from service_capacity_modeling.capacity_planner import planner
from service_capacity_modeling.interface import (
    CapacityDesires,
    QueryPattern,
    certain_float,
    certain_int,
)

pattern = QueryPattern(
    estimated_read_per_second=certain_int(int(sys.argv[1])),
    estimated_write_per_second=certain_int(0),
    estimated_mean_read_latency_ms=certain_float(1000),
)
desires = CapacityDesires(service_tier=1, query_pattern=pattern)
plans = planner.plan_certain(model_name="org.netflix.stateless-java", region="us-east-1", desires=desires)
(cluster,) = plans[0].candidate_clusters.regional
print(json.dumps({"machines": cluster.count, "machine": cluster.instance.name}))
