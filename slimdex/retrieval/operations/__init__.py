"""Build and repair an index, and upload to one."""
