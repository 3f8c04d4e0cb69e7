"""Execution plans: signatures of pending graphs, the planner, caches of plans, and the execution of plans on buffers and scalars."""
