"""Device memory: what a replica's model, engine and load take of it, and how much is left for the KV cache.

sharding, tensors, parameters    how a model is cut, and the weights of one device
kv, blocks                       what a sequence keeps, and how engines cut that into blocks
activations, adapters, padding   what else is computed from the model's shape
settings, assumed                the engine's settings, and what stands in for what nobody said
engine_word, measured            what an engine said of itself, and the lines it replaces
estimate                         the lines of one device as plain numbers
case, remedies                   whether a load fits, and what would make it fit
figures, budget                  the same with evidence: `memory_budget`, the stage
host, sharing                    the host's memory; several engines on one device
"""
