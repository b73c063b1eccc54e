"""A cluster: building on Ray, for those whom one machine is not enough.

Files import only what is above them: ray_workers.
"""
