"""The autoscalers told step by step, pod by pod and event by event, with nothing shared with the package.

Slow and plain on purpose: every pod has its own entry, every window is walked, and state is changed in place. The
package's arithmetic is held to this over many random series.
"""

from __future__ import annotations

import math
from typing import Any

INT_MAX = 2**31 - 1


class LiteralHpa:
    """One HorizontalPodAutoscaler; `spec` is a plain dict with the keys of autoscaling/v2."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.recommendations: list[tuple[float, int]] | None = None
        self.up_events: list[tuple[float, int]] = []
        self.down_events: list[tuple[float, int]] = []

    def sync(self, now: float, replicas: int, ready: int, readings: list[Any]) -> int:
        spec = self.spec
        if self.recommendations is None:
            self.recommendations = [(now, replicas)]
        if replicas == 0 and spec["min"] != 0:
            return 0
        if replicas > spec["max"]:
            desired = spec["max"]
        elif replicas < spec["min"]:
            desired = spec["min"]
        else:
            asked = self.ask(replicas, ready, readings)
            if asked is None:
                return replicas
            desired = self.normalise(now, replicas, asked)
        if desired != replicas and spec["behavior"] is not None:
            if desired > replicas:
                self.up_events.append((now, desired - replicas))
            else:
                self.down_events.append((now, replicas - desired))
        return int(desired)

    def ask(self, replicas: int, ready: int, readings: list[Any]) -> int | None:
        best, invalid = 0, 0
        for metric, reading in zip(self.spec["metrics"], readings, strict=True):
            found = None if reading is None else self.one(metric, reading, replicas, ready)
            if found is None:
                invalid += 1
            elif found > best:
                best = found
        if invalid >= len(readings) or (invalid > 0 and best < replicas):
            return None
        return best

    def within(self, ratio: float) -> bool:
        behavior = self.spec["behavior"]
        down = behavior["down"]["tolerance"] if behavior else 0.1
        up = behavior["up"]["tolerance"] if behavior else 0.1
        return bool((1.0 - down) <= ratio and ratio <= (1.0 + up))

    def one(self, metric: dict[str, Any], reading: Any, replicas: int, ready: int) -> int | None:
        if metric["type"] == "value":
            ratio = float(reading) / float(metric["target"])
            if replicas != 0:
                if self.within(ratio):
                    return replicas
                return math.ceil(ratio * float(ready))
            return math.ceil(ratio)
        if metric["type"] == "average":
            count = replicas
            if replicas == 0 or not self.within(float(reading) / (float(metric["target"]) * float(replicas))):
                count = math.ceil(float(reading) / float(metric["target"]))
            return count
        return self.pods(metric, reading, replicas)

    def ratio(self, metric: dict[str, Any], usage: dict[str, int], request: int) -> float:
        total = 0
        for value in usage.values():
            total += value
        if metric["type"] == "resource":
            requests = request * len(usage)
            return float(total * 100 // requests) / float(metric["target"])
        return float(total // len(usage)) / float(metric["target"])

    def pods(self, metric: dict[str, Any], pods: dict[str, Any], replicas: int) -> int | None:
        """`pods` maps a name to its value, to "unready" or to "missing"; "request" is kept apart."""
        request = int(pods.get("request", 0))
        usage = {name: value for name, value in pods.items() if name != "request" and not isinstance(value, str)}
        unready = [name for name, value in pods.items() if value == "unready"]
        missing = [name for name, value in pods.items() if value == "missing"]
        if not usage:
            return None
        first = self.ratio(metric, usage, request)
        with_unready = len(unready) > 0 and first > 1.0
        if not with_unready and len(missing) == 0:
            if self.within(first):
                return replicas
            return math.ceil(first * float(len(usage)))
        for name in missing:
            if first < 1.0:
                if metric["type"] == "resource":
                    usage[name] = request * max(100, metric["target"]) // 100
                else:
                    usage[name] = metric["target"]
            else:
                usage[name] = 0
        if with_unready:
            for name in unready:
                usage[name] = 0
        second = self.ratio(metric, usage, request)
        if self.within(second) or (first < 1.0 and second > 1.0) or (first > 1.0 and second < 1.0):
            return replicas
        found = math.ceil(second * float(len(usage)))
        if (second < 1.0 and found > replicas) or (second > 1.0 and found < replicas):
            return replicas
        return found

    def normalise(self, now: float, replicas: int, asked: int) -> int:
        assert self.recommendations is not None
        behavior, spec = self.spec["behavior"], self.spec
        if behavior is None:
            stable = asked
            for at, value in self.recommendations:
                if not at < now - 300.0 and value > stable:
                    stable = value
            self.recommendations.append((now, asked))
            limit = max(2 * replicas, 4)
            most = min(spec["max"], limit)
            return int(spec["min"] if stable < spec["min"] else most if stable > most else stable)
        up, down = asked, asked
        for at, value in self.recommendations:
            if at > now - behavior["up"]["window"]:
                up = min(up, value)
            if at > now - behavior["down"]["window"]:
                down = max(down, value)
        self.recommendations.append((now, asked))
        stable = replicas
        if stable < up:
            stable = up
        if stable > down:
            stable = down
        if stable > replicas:
            limit = self.up_limit(now, replicas)
            if limit < replicas:
                limit = replicas
            return int(min(stable, spec["max"], limit))
        if stable < replicas:
            limit = self.down_limit(now, replicas)
            if limit > replicas:
                limit = replicas
            return int(max(stable, spec["min"], limit))
        return int(stable)

    def began(self, now: float, replicas: int, period: float) -> int:
        added = sum(change for at, change in self.up_events if at > now - period)
        deleted = sum(change for at, change in self.down_events if at > now - period)
        return replicas - added + deleted

    def up_limit(self, now: float, replicas: int) -> int:
        rules = self.spec["behavior"]["up"]
        if rules["select"] == "Disabled":
            return replicas
        result = INT_MAX if rules["select"] == "Min" else -INT_MAX
        for kind, value, period in rules["policies"]:
            began = self.began(now, replicas, period)
            proposed = began + value if kind == "Pods" else math.ceil(float(began) * (1 + float(value) / 100))
            result = min(result, proposed) if rules["select"] == "Min" else max(result, proposed)
        return int(result)

    def down_limit(self, now: float, replicas: int) -> int:
        rules = self.spec["behavior"]["down"]
        if rules["select"] == "Disabled":
            return replicas
        result = -INT_MAX if rules["select"] == "Min" else INT_MAX
        for kind, value, period in rules["policies"]:
            began = self.began(now, replicas, period)
            proposed = began - value if kind == "Pods" else int(float(began) * (1 - float(value) / 100))
            result = max(result, proposed) if rules["select"] == "Min" else min(result, proposed)
        return int(result)


class LiteralKeda:
    """One ScaledObject: the operator's poll, and the HPA it made."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.last_active: float | None = None
        self.failures = [0] * len(spec["triggers"])
        hpa = {
            "min": spec["min"] if spec["min"] > 0 else 1,
            "max": spec["max"],
            "behavior": spec["behavior"],
            "metrics": [{"type": "average", "target": int(each["threshold"] * 1000)} for each in spec["triggers"]],
        }
        self.hpa = LiteralHpa(hpa)

    def poll(self, now: float, replicas: int, values: list[float | None]) -> int:
        active, error = False, False
        for trigger, value in zip(self.spec["triggers"], values, strict=True):
            if value is None:
                error = True
            elif value > trigger["activation"]:
                active = True
        if active:
            self.last_active = now
            if self.spec["idle"] is not None and replicas < self.spec["min"]:
                return int(self.spec["min"])
            if replicas == 0:
                return int(self.spec["min"]) if self.spec["min"] > 0 else 1
            return replicas
        if error:
            if self.spec["fallback"] is not None and self.spec["fallback"]["replicas"] != 0:
                return int(self.spec["fallback"]["replicas"])
            return replicas
        if self.spec["idle"] is not None and replicas > self.spec["idle"]:
            return int(self.spec["idle"]) if self.cooled(now) else replicas
        if self.spec["idle"] is None and self.spec["min"] == 0 and replicas > 0:
            return 0 if self.cooled(now) else replicas
        if self.spec["idle"] is None and replicas < self.spec["min"]:
            return int(self.spec["min"])
        return replicas

    def cooled(self, now: float) -> bool:
        if self.last_active is None:
            return bool(self.spec["initial_cooldown"] < now)
        return bool(self.last_active + self.spec["cooldown"] < now)

    def sync(self, now: float, replicas: int, ready: int, values: list[float | None]) -> int:
        readings: list[Any] = []
        for place, value in enumerate(values):
            if value is not None:
                self.failures[place] = 0
                readings.append(int(value * 1000))
                continue
            self.failures[place] += 1
            fallback = self.spec["fallback"]
            if fallback is not None and self.failures[place] > fallback["failures"]:
                readings.append(int(self.spec["triggers"][place]["threshold"] * 1000) * fallback["replicas"])
            else:
                readings.append(None)
        return self.hpa.sync(now, replicas, ready, readings)


class LiteralKnative:
    """One KPA decider and the scaler behind it; samples are kept second by second and averaged anew at every tick."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.panic_time: float | None = None
        self.max_panic_pods = 0
        self.delay: list[tuple[float, int]] = []
        self.inactive_since: float | None = None

    def tick(self, now: float, ready: int, stable: float, panic: float) -> int:
        spec = self.spec
        pods = 1.0 if ready < 1 else float(ready)
        max_up = math.ceil(spec["max_up"] * pods)
        max_down = math.floor(pods / spec["max_down"])
        target = spec["target"] * spec["utilisation"]
        dspc = math.ceil(stable / target)
        dppc = math.ceil(panic / target)
        desired_stable = int(min(max(dspc, max_down), max_up))
        desired_panic = int(min(max(dppc, max_down), max_up))
        if spec["activation"] > 1:
            if dspc > 0 and spec["activation"] > desired_stable:
                desired_stable = spec["activation"]
            if dppc > 0 and spec["activation"] > desired_panic:
                desired_panic = spec["activation"]
        over = dppc / pods >= spec["panic_threshold"]
        if over:
            self.panic_time = now
        elif self.panic_time is not None and self.panic_time + spec["stable"] < now:
            self.panic_time = None
            self.max_panic_pods = 0
        desired = desired_stable
        if self.panic_time is not None:
            if desired < desired_panic:
                desired = desired_panic
            if desired > self.max_panic_pods:
                self.max_panic_pods = desired
            desired = self.max_panic_pods
        if spec["delay"] > 0:
            self.delay.append((now, desired))
            for at, value in self.delay:
                if at > now - spec["delay"] and value > desired:
                    desired = value
        if desired == 0 and spec["min"] == 0:
            if self.inactive_since is None:
                self.inactive_since = now
            waited = now - self.inactive_since
            if ready > 0 and (waited < spec["grace"] or waited < spec["retention"]):
                desired = 1
        else:
            self.inactive_since = None
        if spec["max"] != 0 and desired > spec["max"]:
            desired = spec["max"]
        if desired < spec["min"]:
            desired = spec["min"]
        return int(desired)
