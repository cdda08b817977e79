"""Whether the evidence of a pool may mislead its plan: anomalies of step models and of the load tests behind them."""

from __future__ import annotations

from ullage.planning.checks.result import CheckAnomaly, CheckResult, CheckSeverity, CheckSubject
from ullage.workload.anomalies import Severity


def misleading_evidence(subject: CheckSubject) -> CheckResult:
    """Anomalies of the plan's evidence: what refuses or decides is a mistake, the rest a warning."""
    name, pool = "misleading-evidence", subject.pool
    tests = [test for test, _ in pool.spec.tested.load_tests]
    found = [
        CheckAnomaly(
            name=name,
            weight=CheckSeverity.MISTAKE if each.refuses or each.is_decisive else CheckSeverity.WARNING,
            sentence=each.sentence,
            fix=f"Test this pool as it is planned, or accept it by name: evidence.accept: [{each.name}].",
            pool=pool.spec.name,
        )
        for each in pool.step_model.anomalies
    ]
    found += [
        CheckAnomaly(
            name=name,
            weight=CheckSeverity.WARNING,
            sentence=f"{test.file}: {each.sentence}",
            fix="Inspect the test (ullage calibrate --inspect), and repeat it if it was cut short or queued.",
            pool=pool.spec.name,
        )
        for test in tests
        for point in test.points
        for each in point.anomalies
        if each.weight is Severity.SERIOUS
    ]
    evidence = str(pool.step_model.evidence)
    compared = f"{len(tests)} load tests behind step times that are {evidence}" if tests else f"step times: {evidence}"
    return CheckResult(name=name, compared=compared, anomalies=tuple(dict.fromkeys(found)), pool=pool.spec.name)
