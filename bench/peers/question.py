"""The one question that every planner is asked, in the words of each that takes a file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Question:
    """Requests of one length, so that planners that know no distributions can answer, too."""

    rate_rps: int = 50
    prompt_tokens: int = 1000
    output_tokens: int = 200
    ttft_p95_s: float = 1.0
    tpot_p95_s: float = 0.05
    devices_per_replica: int = 2
    # Ten minutes of requests, for planners that simulate.
    span_s: int = 600

    @property
    def requests(self) -> int:
        return self.rate_rps * self.span_s

    def sentence(self) -> str:
        return (
            f"How many replicas of Qwen3-32B in bfloat16 on {self.devices_per_replica} H100 SXM each (vLLM) for "
            f"{self.rate_rps} requests a second of {self.prompt_tokens:,} prompt and {self.output_tokens} output "
            f"tokens, with a TTFT p95 of {self.ttft_p95_s:g} s and a TPOT p95 of {1e3 * self.tpot_p95_s:g} ms?"
        )

    def plan_file(self) -> str:
        return f"""\
version: 1
service: one question
dated: 2026-11-16
workload:
  classes:
    - name: chat
      rate: {self.rate_rps} req/s
      longest_context: 4096
      prompt: {{p50: {self.prompt_tokens}, p95: {self.prompt_tokens}}}
      output: {{p50: {self.output_tokens}, p95: {self.output_tokens}}}
      cached_fraction: 0%
      slo: {{ttft_p95: {self.ttft_p95_s}s, tpot_p95: {1e3 * self.tpot_p95_s}ms}}
pool: {{model: qwen3-32b, device: h100-sxm, tensor_parallel: {self.devices_per_replica}, engine: vllm}}
"""

    def aisimulate_file(self, replicas: int) -> str:
        return f"""\
traffic:
  source: {{type: synthetic, input_tokens: {self.prompt_tokens}, output_tokens: {self.output_tokens}}}
  load: {{type: poisson, requests_per_second: {self.rate_rps}, seed: 0}}
  stop: {{requests: {self.requests}}}
engine:
  mode: aggregated
  model: Qwen/Qwen3-32B
  hardware: h100_sxm
  backend: vllm
  workers:
    aggregated:
      parallelism: {{tensor: {self.devices_per_replica}, replicas: {replicas}}}
"""
