"""Scenarios, joint draws, drivers, shortfall and regret around a core that computes one point."""
