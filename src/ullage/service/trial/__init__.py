"""One pool under load: simulated in one place, judged by one rule.

trial       what is tested, and the only call of the simulator
mix         the production mix at any load
window      one simulated window, reduced to the numbers that decisions are made of
scenario    something that happens to a pool while it is watched: losses, rollouts, drills
strata      many candidate windows, sorted by their heaviest minutes, so that rare collapses are not left to chance
decide      whether every SLO is met: met, violated, or undecided after so many windows
search      the highest load, and the least number of replicas, that meet every SLO
"""
