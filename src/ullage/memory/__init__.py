"""Device memory: what a replica's model, engine and load take of it, and how much is left for the KV cache.

sharding, tensors, parameters    how a model is sharded, and the weights of one device
kv, blocks                       what a sequence keeps, and how engines divide that into blocks
activations, adapters, padding   what else is computed from the model's shape
settings, assumed                the engine's settings, and the defaults for what was not stated
engine_report, measured          values that an engine reports, and the lines they replace
estimate                         the lines of one device as plain numbers
case, remedies                   whether a load fits, and what would make it fit
figures, budget                  the same with evidence: `memory_budget`, the stage
host, sharing                    the host's memory; several engines on one device
"""
