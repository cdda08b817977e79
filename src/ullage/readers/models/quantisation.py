"""How weights are stored: the flavours of `quantization_config` and `hf_quant_config.json`.

Every flavour is reduced to a `Scheme`: a format for matrices, patterns of modules that keep the base dtype,
and formats for modules that differ. `layer_formats` then asks the scheme about the modules of a layer by the
names the checkpoints use. The embedding is never quantised; the language-model head only where the config
says so. Where parts of one class are stored differently, the class takes the larger format, and a note says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from ullage.errors import check_name, unknown_name
from ullage.facts.model import LayerFormats, WeightFormat
from ullage.readers.models.keys import Keys, Record
from ullage.readers.models.modules import LayerModules, Parts, Patterns


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """Formats by module name. `default` None says that nothing is quantised unless a pattern says so."""

    base: WeightFormat
    default: WeightFormat | None = None
    routed: WeightFormat | None = None
    excluded: Patterns = field(default_factory=Patterns)
    named: tuple[tuple[Patterns, WeightFormat], ...] = ()
    only_routed: bool = False
    head: WeightFormat | None = None
    kv_dtype: str | None = None

    def of(self, layer: int, parts: Parts, *, routed: bool = False) -> tuple[WeightFormat, ...]:
        """The formats of these parts of a layer, each once, largest first."""
        found = {self._one(layer, names, routed=routed) for names in parts}
        return tuple(sorted(found, key=lambda each: -each.stored_bits))

    def _one(self, layer: int, names: Sequence[str], *, routed: bool) -> WeightFormat:
        for patterns, form in self.named:
            if any(patterns.match(layer, name) for name in names):
                return form
        if any(self.excluded.match(layer, name) for name in names):
            return self.base
        if routed and self.routed is not None:
            return self.routed
        if self.default is None or (self.only_routed and not routed):
            return self.base
        return self.default


FP8 = WeightFormat(name="fp8", weight_bits=8, compute_dtype="fp8")
NVFP4 = WeightFormat(name="nvfp4", weight_bits=4, scale_bits=8, values_per_scale=16, compute_dtype="fp4")
MXFP4 = WeightFormat(name="mxfp4", weight_bits=4, scale_bits=8, values_per_scale=32, compute_dtype="bf16")
MXFP8 = WeightFormat(name="mxfp8", weight_bits=8, scale_bits=8, values_per_scale=32, compute_dtype="fp8")
INT8 = WeightFormat(name="int8", weight_bits=8, compute_dtype="int8")

_KV_DTYPES = {"FP8": "fp8", "NVFP4": "nvfp4", "INT8": "int8", "FP4": "nvfp4", "NONE": None, "AUTO": None}
_INT4_GROUP = 128


def scheme(top: Keys, text: Keys, beside: Keys | None, base: WeightFormat) -> Scheme:
    """The scheme of a checkpoint: from the config, or from the `hf_quant_config.json` beside it."""
    inside = _inside(top, text)
    own = _read(inside, base) if inside is not None else None
    other = _modelopt(_quantization(beside), base) if beside is not None else None
    if own is not None and other is not None:
        if None not in (own.default, other.default) and _name(own) != _name(other) and beside and inside:
            problem = f"says {_name(other)}, but {inside.path} says {_name(own)}"
            fix = "The two files belong to different checkpoints; give the right one."
            raise _quantization(beside).wrong("quant_algo", problem, fix)
        return replace(own, kv_dtype=own.kv_dtype or other.kv_dtype)
    routed = _expert_dtype(top, text)
    found = own or other or Scheme(base=base)
    return found if routed is None or found.named else replace(found, routed=routed)


def layer_formats(found: Scheme, layer: int, modules: LayerModules, record: Record) -> LayerFormats:
    """The storage of one layer's classes of weights."""
    chosen = {}
    for part in fields(LayerModules):
        forms = found.of(layer, getattr(modules, part.name), routed=part.name == "routed")
        if len(forms) > 1:
            names = " and ".join(form.name for form in forms)
            record.note(
                f"{part.name.replace('_', ' ')} weights are stored as {names} in one layer: counted as {forms[0].name}"
            )
        chosen[part.name] = forms[0] if forms else found.base
    return LayerFormats(**chosen, other=found.base)


def _name(found: Scheme) -> str:
    return found.default.name if found.default is not None else "nothing"


def _inside(top: Keys, text: Keys) -> Keys | None:
    for keys in (top, text):
        for name in ("quantization_config", "compression_config"):
            if keys.has(name):
                return keys.sub(name)
    return None


def _expert_dtype(top: Keys, text: Keys) -> WeightFormat | None:
    """DeepSeek-V4 stores routed experts in fp4 beside fp8 matrices."""
    for keys in (text, top):
        if keys.has("expert_dtype"):
            known = {"fp4": MXFP4, "fp8": FP8}
            written = keys.text_or("expert_dtype") or ""
            check_name(written, known, field=keys.where("expert_dtype"))
            return known[written]
    return None


def _quantization(beside: Keys) -> Keys:
    if not beside.has("quantization"):
        raise beside.missing("quantization")
    return beside.sub("quantization")


def _read(config: Keys, base: WeightFormat) -> Scheme:
    method = config.text_or("quant_method")
    if config.has("quant_algo") and method in (None, "modelopt", "fp8", "modelopt_fp4"):
        return _modelopt(config, base)
    readers = {
        "fp8": _fp8,
        "fbgemm_fp8": _fp8,
        "mxfp4": _mxfp4,
        "compressed-tensors": _compressed_tensors,
        "modelopt": _modelopt,
        "awq": _integer,
        "gptq": _integer,
        "gptqmodel": _integer,
        "auto-round": _integer,
        "bitsandbytes": _bitsandbytes,
        "quark": _quark,
    }
    if method is None:
        raise config.missing("quant_method")
    if method not in readers:
        fix = "Its storage is not modelled; plan with the unquantised config, or add the flavour."
        raise unknown_name(field=config.where("quant_method"), name=method, known=readers, fix=fix)
    return readers[method](config, base)


def _fp8(config: Keys, base: WeightFormat) -> Scheme:
    """Per block (DeepSeek), or a scale per tensor or row, which are too few to count."""
    form = FP8
    if config.has("store_dtype"):
        fix = "Plan with a checkpoint whose config names its formats."
        raise config.wrong("store_dtype", "stores weights in another format than quant_method says", fix)
    if config.has("weight_block_size"):
        rows, columns = config.whole_items("weight_block_size", least=2, most=2, low=1)
        form = _scaled(FP8, 32, rows * columns)
    return Scheme(base=base, default=form, excluded=_excluded(config))


def _mxfp4(config: Keys, base: WeightFormat) -> Scheme:
    """OpenAI's flavour quantises routed experts and nothing else."""
    return Scheme(base=base, default=MXFP4, only_routed=True, excluded=_excluded(config))


def _integer(config: Keys, base: WeightFormat) -> Scheme:
    """AWQ, GPTQ and relatives: weights of few bits, a 16-bit scale and a zero point per group."""
    bits = config.count("bits", "w_bit")
    form = _integer_form(config, bits, zero_point=not config.flag("sym") or config.flag("zero_point"))
    return Scheme(
        base=base,
        default=form,
        excluded=_excluded(config),
        head=form if config.flag("lm_head") else None,
    )


def _integer_form(config: Keys, bits: int, *, zero_point: bool) -> WeightFormat:
    if bits not in (2, 3, 4, 8):
        raise config.wrong("bits", "is not a width that engines load", "2, 3, 4 or 8.")
    group = _group(config, "group_size", "q_group_size")
    name = f"int{bits}"
    if group is None:
        return WeightFormat(name=name, weight_bits=bits)
    return WeightFormat(
        name=name, weight_bits=bits, scale_bits=16 + (bits if zero_point else 0), values_per_scale=group
    )


def _group(config: Keys, *names: str) -> int | None:
    """A group size; -1 says one scale per row, too few to count. Absent: the 128 every tool defaults to."""
    name = config.states(*names)
    if name is None:
        config.record.assume(config.where(names[0]), _INT4_GROUP, "weights", "the default of AWQ and GPTQ tools")
        return _INT4_GROUP
    if config.table[name] in (-1, 0):
        config.record.used.add(config.where(name))
        return None
    return config.count(name)


def _bitsandbytes(config: Keys, base: WeightFormat) -> Scheme:
    if config.flag("load_in_4bit") or config.flag("_load_in_4bit"):
        scale = 8 if config.flag("bnb_4bit_use_double_quant") else 32
        form = WeightFormat(name="nf4", weight_bits=4, scale_bits=scale, values_per_scale=64)
    elif config.flag("load_in_8bit") or config.flag("_load_in_8bit"):
        form = INT8
    else:
        raise config.missing("load_in_4bit", "load_in_8bit")
    return Scheme(base=base, default=form, excluded=_excluded(config))


def _compressed_tensors(config: Keys, base: WeightFormat) -> Scheme:
    """Groups of modules by target; `Linear` stands for every matrix."""
    groups = config.sub("config_groups")
    default, named = None, []
    for name in groups.table:
        group = groups.sub(name)
        form = _weights_form(group)
        targets = group.items("targets") if group.has("targets") else ["Linear"]
        if "Linear" in targets:
            default = form
        else:
            named.append((Patterns(written=_texts(group, "targets", targets)), form))
    kv = config.sub("kv_cache_scheme") if isinstance(config.table.get("kv_cache_scheme"), dict) else None
    return Scheme(
        base=base,
        default=default,
        named=tuple(named),
        excluded=_excluded(config),
        kv_dtype=_kv_scheme(kv) if kv is not None else None,
    )


def _weights_form(group: Keys) -> WeightFormat:
    if not group.has("weights"):
        raise group.missing("weights")
    weights = group.sub("weights")
    bits, kind = weights.count("num_bits"), weights.text_or("type") or "int"
    size = weights.table.get("group_size")
    values = weights.count("group_size") if isinstance(size, int) and size > 0 else None
    if kind == "float" and bits == 8:
        if values is None and weights.has("block_structure") and isinstance(weights.table["block_structure"], list):
            rows, columns = weights.whole_items("block_structure", least=2, most=2, low=1)
            values = rows * columns
        return FP8 if values is None else _scaled(FP8, 32 if values > 64 else 8, values)
    if kind == "float" and bits == 4:
        return MXFP4 if values == 32 else NVFP4
    if kind == "int" and bits in (4, 8) and values is None:
        return INT8 if bits == 8 else WeightFormat(name="int4", weight_bits=4)
    if kind == "int":
        return _integer_form(weights, bits, zero_point=weights.table.get("symmetric") is False)
    raise weights.wrong("type", f"with {bits} bits is not a storage this reader knows", "Use int or float.")


def _kv_scheme(found: Keys) -> str:
    bits, kind = found.count("num_bits"), found.text_or("type") or "float"
    names = {(8, "float"): "fp8", (8, "int"): "int8", (4, "float"): "nvfp4"}
    if (bits, kind) not in names:
        raise found.wrong("num_bits", f"of {kind} is not a cache dtype engines have", "8-bit float or int.")
    return names[bits, kind]


def _modelopt(config: Keys, base: WeightFormat) -> Scheme:
    algorithm = (config.text_or("quant_algo") or "").upper()
    named: list[tuple[Patterns, WeightFormat]] = []
    if config.has("quantized_layers"):
        layers = config.sub("quantized_layers")
        by_form: dict[WeightFormat, list[str]] = {}
        for name in layers.table:
            entry = layers.sub(name)
            by_form.setdefault(_algorithm(entry, entry.text_or("quant_algo") or ""), []).append(name)
        named = [(Patterns(written=tuple(names)), form) for form, names in by_form.items()]
    if algorithm == "MIXED_PRECISION":
        # Modules that the list does not name are as the rest of the config says (DeepSeek-V4: fp8 blocks).
        rest = _fp8(config, base).default if config.has("weight_block_size") else None
        default = rest
    elif algorithm:
        default = _algorithm(config, algorithm)
    else:
        default = None
        if not named:
            config.record.note("hf_quant_config names no algorithm for weights: they are unquantised")
    # A mixed list excludes what its 4-bit pass left alone; those modules keep the format of the rest.
    excluded = Patterns() if algorithm == "MIXED_PRECISION" and default is not None else _excluded(config)
    return Scheme(base=base, default=default, excluded=excluded, named=tuple(named), kv_dtype=_modelopt_kv(config))


def _algorithm(config: Keys, written: str) -> WeightFormat:
    algorithm = written.upper()
    fixed = {
        "FP8": FP8,
        "FP8_PER_CHANNEL_PER_TOKEN": FP8,
        "FP8_PB_WO": _scaled(FP8, 32, 128 * 128),
        "NVFP4": NVFP4,
        "NVFP4_AWQ": NVFP4,
        "W4A16_NVFP4": NVFP4,
        "W4A8_NVFP4_FP8": NVFP4,
        "MXFP4": MXFP4,
        "MXFP8": MXFP8,
        "W4A8_MXFP4_FP8": MXFP4,
        "INT8_SQ": INT8,
        "W8A8_SQ_PER_CHANNEL": INT8,
    }
    if algorithm in fixed:
        return fixed[algorithm]
    if algorithm in ("W4A16_AWQ", "W4A8_AWQ", "INT4_AWQ", "W4A16"):
        return _integer_form(config, 4, zero_point=False)
    if algorithm in ("W8A16", "INT8"):
        return INT8
    raise unknown_name(field=config.where("quant_algo"), name=written, known=(*fixed, "W4A16_AWQ", "W8A16"))


def _modelopt_kv(config: Keys) -> str | None:
    if isinstance(config.table.get("kv_cache_scheme"), dict):
        return _kv_scheme(config.sub("kv_cache_scheme"))
    written = config.text_or("kv_cache_quant_algo", "kv_cache_scheme")
    if written is None:
        return None
    if written.upper() not in _KV_DTYPES:
        name = config.states("kv_cache_quant_algo", "kv_cache_scheme") or ""
        raise unknown_name(field=config.where(name), name=written, known=_KV_DTYPES)
    return _KV_DTYPES[written.upper()]


def _quark(config: Keys, base: WeightFormat) -> Scheme:
    """AMD Quark: one dtype for all matrices, patterns left alone."""
    whole = config.sub("global_quant_config")
    weight = whole.table.get("weight")
    weight = weight[0] if isinstance(weight, list) and weight else weight
    if not isinstance(weight, dict):
        raise whole.wrong("weight", "is not an object", "Give the checkpoint's own config.")
    keys = Keys(table=weight, path=whole.where("weight"), record=config.record)
    forms: Mapping[str, WeightFormat] = {"fp8_e4m3": FP8, "fp4": MXFP4, "int8": INT8}
    written = keys.text_or("dtype") or ""
    check_name(written, forms, field=keys.where("dtype"))
    if config.table.get("layer_quant_config"):
        raise config.wrong("layer_quant_config", "differs by layer, which is not modelled", "Plan another checkpoint.")
    return Scheme(base=base, default=forms[written], excluded=_excluded(config))


def _scaled(form: WeightFormat, scale_bits: int, values: int) -> WeightFormat:
    return replace(form, scale_bits=scale_bits, values_per_scale=values)


def _excluded(config: Keys) -> Patterns:
    names = (
        "modules_to_not_convert",
        "ignore",
        "exclude_modules",
        "ignored_layers",
        "exclude",
        "llm_int8_skip_modules",
    )
    found: list[str] = []
    for name in names:
        if config.has(name):
            found.extend(_texts(config, name, config.items(name)))
    if isinstance(config.table.get("dynamic"), dict):  # gptqmodel: "-:regex" leaves modules alone
        rules = config.sub("dynamic")
        for rule in rules.table:
            if not rule.startswith("-:"):
                raise rules.wrong(rule, "differs by module, which is not modelled", "Plan another checkpoint.")
            found.append(f"re:{rule.removeprefix('-:')}")
    return Patterns(written=tuple(found))


def _texts(keys: Keys, name: str, found: Sequence[object]) -> tuple[str, ...]:
    for index, each in enumerate(found):
        if not isinstance(each, str):
            raise keys.wrong(name, f"has an entry {index} that is not a text", "Write module names.")
    return tuple(str(each) for each in found)
