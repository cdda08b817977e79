"""The families of files that are damaged: seeds of every format, and how a verb reads them."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from support import engine_logs, fuzz_saved, fuzz_traces, fuzz_verbs, loadtest_samples
from support.fuzz_clusters import CLUSTERS, SIGNS
from support.fuzz_traces import DAY
from support.key_probes import BASES
from support.model_configs import EVERY
from ullage.files.plan_record import read_plan_record
from ullage.load.plan import load_plan
from ullage.load.texts import read_text
from ullage.memory.kv import KV_DTYPES, cache_cost
from ullage.memory.parameters import parameter_count
from ullage.readers.engines import read_engine_reports
from ullage.readers.engines.startup import read_starts
from ullage.readers.kubernetes import read_rules, read_running
from ullage.readers.models import read_model
from ullage.readers.prices import read_prices
from ullage.readers.prices.price_file import PriceProvenance
from ullage.report.encode import to_text
from ullage.report.markdown import to_markdown
from ullage.verbs.calibrate import calibrate


@dataclass(frozen=True, kw_only=True)
class Family:
    """Files of one kind. `packages` are the readers whose lines are counted, below src/ullage.

    Further cases are drawn by `draw`, or where there is none by damage to the seeds.
    """

    name: str
    seeds: Callable[[], tuple[bytes, ...]]
    read: Callable[[Path], None]
    packages: tuple[str, ...]
    suffixes: dict[bytes, str]
    draw: Callable[[Random], bytes] | None = None
    most_cpu_s: float = 20.0
    """A damaged file of some kilobytes is answered in milliseconds; more tells a reader that runs away."""

    def file_name(self, data: bytes) -> str:
        """The name such a file would have; the format is chosen by the first byte."""
        start = data.lstrip()[:1]
        return f"case{self.suffixes.get(data[:2]) or self.suffixes.get(start) or self.suffixes[b'']}"


# ---- plan files -------------------------------------------------------------------------------------------------

_RECORD = {
    "schema": "ullage.plan/2",
    "service": "x",
    "as_of": "2026-11-15",
    "seed": 0,
    "summary": {"verdict": "BUY"},
    "figures": {
        "a.b_s": {"value": 1.5, "unit": "s", "evidence": "stated", "inputs": ["c"], "sources": [{"what": "x"}]}
    },
    "assumptions": {"c": {"value": "x", "unit": "", "evidence": "assumed"}},
}


@cache
def _plan_seeds() -> tuple[bytes, ...]:
    # Plans that name other files are left out: what these hold is the subject of the other families.
    alone = [text for text in BASES.values() if ".csv" not in text and ".json" not in text and ".log" not in text]
    # A comment more is an odd byte more: the same objects, asked for their rules.
    clusters = [one.encode() for each in CLUSTERS for one in (each, f"{each}#\n")]
    return (*(each.strip().encode() for each in alone), *clusters, json.dumps(_RECORD).encode())


def _read_plan(file: Path) -> None:
    text = read_text(file, fix="Give a plan file.")
    if text.lstrip().startswith("{"):
        read_plan_record(text, file=str(file))
    elif any(each in text for each in SIGNS):
        # What runs, or by which rules it scales: settled by the bytes.
        (read_rules if sum(file.read_bytes()) % 2 else read_running)([file])
    else:
        load_plan(file, as_of=DAY)


# ---- logs and results -------------------------------------------------------------------------------------------


@cache
def _test_seeds() -> tuple[bytes, ...]:
    samples = loadtest_samples.SAMPLES.values()
    detailed = {**loadtest_samples.vllm_run(), **loadtest_samples.vllm_arrays()}
    return (loadtest_samples.to_json(detailed), *(made for each in samples for made in (each.make(1.0), each.older())))


def _read_test(file: Path) -> None:
    found = calibrate([file], inspect=True)
    to_text(found.to_dict())
    to_markdown(found.page())


def _read_log(file: Path) -> None:
    # One log tells of memory and of start-up times; which of them is asked for is settled by the bytes.
    if sum(file.read_bytes()) % 2:
        read_starts([file], date=DAY)
    else:
        read_engine_reports([file], date=DAY)


@cache
def _log_seeds() -> tuple[bytes, ...]:
    logs = [good for good, _ in engine_logs.GOOD_AND_CUT.values()]
    # A tab more is an odd byte more: the same log, asked for the other thing.
    return tuple(each.encode() for one in (*logs, *_STARTS) for each in (one, f"{one}\t\n"))


_STARTS = (
    """\
(APIServer pid=1) INFO 06-05 06:00:00 [utils.py:344]  version 0.22.0
(EngineCore pid=2) INFO 06-05 06:00:14 [core.py:112] Initializing a V1 LLM engine (v0.22.0) with config: model='m'
(Worker_TP0 pid=3) INFO 06-05 06:00:55 [default_loader.py:397] Loading weights took 38.00 seconds
(Worker_TP0 pid=3) INFO 06-05 06:00:57 [runner.py:5132] Model loading took 8.66 GiB memory and 39.500000 seconds
(Worker_TP0 pid=3) INFO 06-05 06:01:27 [monitor.py:53] torch.compile took 30.00 s in total
(Worker_TP0 pid=3) INFO 06-05 06:01:47 [gpu_model_runner.py:6456] Graph capturing finished in 10 secs, took 1.00 GiB
(EngineCore pid=2) INFO 06-05 06:01:47 [core.py:302] init engine (profile, warmup) took 50.00 s (compilation: 30.00 s)
(APIServer pid=1) INFO 06-05 06:02:00 [api_server.py:596] Starting vLLM server on http://0.0.0.0:8000
(APIServer pid=1) INFO:     Application startup complete.
""",
    """\
[2026-06-09 22:03:50] server_args=ServerArgs(model_path='m', disable_cuda_graph=False)
[2026-06-09 22:04:10 TP0] Load weight begin. avail mem=275.73 GB
[2026-06-09 22:05:50 TP0] Load weight end. elapsed=99.50 s, type=M, avail mem=149.07 GB, mem usage=126.66 GB.
[2026-06-09 22:06:10 TP0] Capture cuda graph end. Time elapsed: 20.00 s. mem usage=1.00 GB. avail mem=60.00 GB.
[2026-06-09 22:06:20] The server is fired up and ready to roll!
""",
    json.dumps(
        {
            "avg_cold_startup_time": 61.5,
            "avg_cold_compilation_time": 20.25,
            "cold_startup_times": [60.0, 63.0],
            "cold_compilation_times": [20.0, 20.5],
            "avg_warm_startup_time": 31.5,
            "avg_warm_compilation_time": 2.25,
            "warm_startup_times": [31.0, 32.0],
            "warm_compilation_times": [2.0, 2.5],
        }
    ),
)


# ---- models and prices ------------------------------------------------------------------------------------------


@cache
def _config_seeds() -> tuple[bytes, ...]:
    dense, routed = EVERY["dense"], EVERY["moe"]
    quantised = [{**dense, "quantization_config": each} for each in _QUANTISED]
    layers = [{**EVERY[base], **own} for base, own in _LAYERS]
    ruled = [{**routed, **each} for each in _RULES]
    return tuple(json.dumps(each).encode() for each in (*EVERY.values(), *quantised, *ruled, *layers))


_QUANTISED: tuple[dict[str, Any], ...] = (
    {"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": ["lm_head", "gate"]},
    {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True},
    {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head", "model.layers.0*"]},
    {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]},
    {"quant_method": "bitsandbytes", "load_in_4bit": True, "llm_int8_skip_modules": ["lm_head"]},
    {
        "quant_method": "compressed-tensors",
        "config_groups": {
            "group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "group_size": 32}},
            "group_1": {"targets": ["re:.*self_attn.*"], "weights": {"num_bits": 8, "type": "float"}},
        },
        "ignore": ["lm_head"],
        "kv_cache_scheme": {"num_bits": 8, "type": "float"},
    },
)
_RULES: tuple[dict[str, Any], ...] = (
    {"layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 128},
    {"sliding_window": 128, "sliding_window_pattern": 2},
    {"full_attention_interval": 2},
    {"attn_layer_period": 2, "attn_layer_offset": 1},
    {"hybrid_layer_pattern": [0, 1, 0, 1]},
)


_MAMBA = {"state_size": 16, "conv_kernel": 4, "expand": 2}
# Layers of other kinds than attention, each on a small model of the kind that is named.
_LAYERS: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "moe",
        {
            "model_type": "jamba",
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "mamba_d_state": 16,
            "mamba_d_conv": 4,
            "mamba_expand": 2,
            "mamba_dt_rank": "auto",
        },
    ),
    ("dense", {**_MAMBA, "model_type": "mamba", "time_step_rank": "auto"}),
    ("dense", {**_MAMBA, "model_type": "mamba2", "num_heads": 8, "head_dim": 32, "n_groups": 1}),
    (
        "dense",
        {
            "model_type": "falcon_h1",
            "mamba_d_state": 16,
            "mamba_d_conv": 4,
            "mamba_n_heads": 8,
            "mamba_d_head": 32,
            "mamba_d_ssm": 256,
            "mamba_n_groups": 1,
        },
    ),
    ("moe", {"model_type": "minimax", "attn_type_list": [0, 0, 0, 1]}),
    (
        "latent",
        {
            "model_type": "kimi_linear",
            "num_shared_experts": 1,
            "linear_attn_config": {
                "kda_layers": [1, 2, 3],
                "full_attn_layers": [4],
                "num_heads": 8,
                "head_dim": 16,
                "short_conv_kernel_size": 4,
            },
        },
    ),
    ("dense", {"model_type": "lfm2", "conv_L_cache": 3, "layer_types": ["conv", "conv", "full_attention", "conv"]}),
    (
        "dense",
        {
            "model_type": "nemotron-nas",
            "block_configs": [
                {"attention": {"n_heads_in_group": 4}, "ffn": {"ffn_mult": 2.0}},
                {"attention": {"no_op": True}, "ffn": {"ffn_mult": 1.0}},
                {"attention": {"n_heads_in_group": 2}, "ffn": {"no_op": True}},
                {"attention": {"n_heads_in_group": 4, "no_op": False}, "ffn": {"ffn_mult": 2.0}},
            ],
        },
    ),
    (
        "moe",
        {
            "model_type": "nemotron_h_puzzle",
            "ssm_state_size": 16,
            "conv_kernel": 4,
            "mamba_num_heads": 8,
            "mamba_head_dim": 32,
            "n_groups": 1,
            "block_configs": [{"block_type": each} for each in ("attention", "moe", "mamba", "moe")],
        },
    ),
    ("dense", {"model_type": "llama4_text", "attention_chunk_size": 64, "no_rope_layers": [1, 1, 1, 0]}),
)


def _read_config(file: Path) -> None:
    model = read_model(file)
    assert cache_cost(model, KV_DTYPES["fp8"]).kv_bytes_per_token >= 0
    assert parameter_count(model) > 0


_PRICES = (
    (
        "provider,instance,gpu,gpu_count,region,zone,price_kind,on_demand_usd_h,spot_usd_h,on_demand_per_gpu,spot_per_gpu,"
        "catalog_date\naws,p5.48xlarge,H100,8.0,us-east-1,use1-az1,instance,55.04,20.28,6.88,2.5,2026-08-22\n"
    ),
    (
        "date,provider,instance,region,gpu,gpu_count,on_demand_usd_h,spot_min_az,spot_max_az,n_az\n"
        "2023-07-29,aws,p5.48xlarge,us-east-1,H100,8.0,98.32,68.824,68.824,1\n"
    ),
    (
        "InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,GpuInfo,Region,AvailabilityZone,Price,SpotPrice\n"
        "p5.48xlarge,192.0,2048.0,H100,8.0,,us-east-1,use1-az1,55.04,20.28\n"
        "a3-highgpu-8g,208.0,1872.0,,,,us-east-1,use1-az1,5.04,2.28\n,,,H100,1.0,,us-east-1,use1-az1,5.04,2.28\n"
    ),
    (
        "model,provider,mode,input_usd_per_mtok,output_usd_per_mtok,cache_read_usd_per_mtok,cache_write_usd_per_mtok,"
        "batch_in,batch_out,priority_in,flex_in,max_input,max_output,source\n"
        "azure/gpt-x,azure,chat,1.25,10.0,0.125,,0.625,5.0,2.5,0.625,272000,128000,\n"
    ),
    (
        "BilledCost,EffectiveCost,ProviderName,BillingCurrency,ChargeCategory,ChargePeriodStart,ChargePeriodEnd,RegionId,"
        "ConsumedQuantity,ConsumedUnit,SkuId,SkuPriceDetails,CommitmentDiscountStatus,ChargeDescription\n"
        "0.0,330.24,Amazon Web Services,USD,Usage,2026-10-01T00:00:00Z,2026-10-02T00:00:00Z,us-east-1,8.0,Hours,"
        'ABC,"{""InstanceType"": ""p5.48xlarge""}",Used,\n'
    ),
    (
        "what,name,provider,region,zone,instance,devices,purchase,tier,kind,price,upfront,interruptions_per_hour,date,"
        "source\ndevice,h100,acme,berlin,,box,8,1y-no-upfront,,,41.30 EUR/h,,,2026-11-01,our contract\n"
        "token,gpt-x,acme,,,,,,standard,input,1 USD/Mtok,,,2026-11-01,ours\n"
        "item,egress,acme,,,,,,,,0.1 USD/GB,,,2026-11-01,x\n"
    ),
    json.dumps(
        {
            "gpt-x": {
                "litellm_provider": "openai",
                "mode": "chat",
                "input_cost_per_token": 1.25e-06,
                "output_cost_per_token": 1e-05,
                "cache_read_input_token_cost": 1.25e-07,
                "input_cost_per_token_batches": 6.25e-07,
                "input_cost_per_token_above_200k_tokens": 2.5e-06,
                "input_cost_per_token_priority": 2.5e-06,
            },
            "free": {"litellm_provider": "acme", "mode": "chat", "input_cost_per_token": 0},
        }
    ),
)


def _read_price(file: Path) -> None:
    found = read_prices(file, PriceProvenance(dated=datetime.date(2026, 11, 1), provider="aws"))
    assert len(found.book) >= 0


_CSV_OR_JSON = {b"{": ".jsonl", b"[": ".json", b"\x1f\x8b": ".csv.gz", b"": ".csv"}
FAMILIES = {
    each.name: each
    for each in (
        Family(
            name="plans",
            seeds=_plan_seeds,
            read=_read_plan,
            packages=(
                "files/plan_file.py",
                "files/strict_yaml.py",
                "files/plan_record.py",
                "files/sections",
                "readers/kubernetes",
                "documents.py",
                "load/located.py",
                "load/dates.py",
            ),
            suffixes={b"": ".yaml", b"{": ".json"},
        ),
        Family(
            name="traces",
            seeds=fuzz_traces.seeds,
            read=fuzz_traces.read,
            packages=("readers/traces",),
            suffixes={**_CSV_OR_JSON, b"PA": ".parquet"},
        ),
        Family(
            name="loadtests",
            seeds=_test_seeds,
            read=_read_test,
            packages=("readers/loadtests",),
            suffixes={b"": ".json"},
        ),
        Family(name="logs", seeds=_log_seeds, read=_read_log, packages=("readers/engines",), suffixes={b"": ".log"}),
        Family(
            name="configs",
            seeds=_config_seeds,
            read=_read_config,
            packages=("readers/models",),
            suffixes={b"": "-config.json"},
        ),
        Family(
            name="prices",
            seeds=lambda: tuple(each.encode() for each in _PRICES),
            read=_read_price,
            packages=("readers/prices",),
            suffixes={**_CSV_OR_JSON, b"{": ".json"},
        ),
        Family(
            name="saved",
            seeds=fuzz_saved.seeds,
            read=fuzz_saved.read,
            packages=fuzz_saved.PACKAGES,
            suffixes={**_CSV_OR_JSON, b"{": ".json"},
        ),
        Family(
            name="verbs",
            seeds=fuzz_verbs.seeds,
            read=fuzz_verbs.read,
            packages=fuzz_verbs.PACKAGES,
            suffixes={b"": "-plan.yaml"},
            draw=fuzz_verbs.drawn,
            most_cpu_s=fuzz_verbs.MOST_CPU_S,
        ),
    )
}
