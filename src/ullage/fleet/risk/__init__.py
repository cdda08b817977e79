"""The chance of a shortfall: joint draws of what is uncertain, compared with what a fleet of any size carries.

quasi_random   points that fill a cube evenly, and normal scores of them
spread         how far one input may be off, as a table of quantiles
surface        the load that pools carry, by size, step times, lengths and cached share, from a handful of trials
load_draws     joint draws of the week's load, hour by hour, in units of the surface
shortfall      the chance that the busiest hour exceeds the fleet, by number of replicas, and hours of shortfall a month
"""
