"""Request streams: the synthetic model, replay and resampling of a trace, what-ifs."""
