"""The verbs over HTTP and MCP: routes, jobs, uploads, and who may do what. No arithmetic, no loading.

A request never reaches the file system or the network by a path or an address of its own. What it asks for runs in a
process of its own, in a folder that holds its uploads and nothing else (children.py, jail.py).
"""
