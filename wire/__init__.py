"""What Assay's programs share outside Django: the object store, heartbeats, Dockerfiles, and dying with one's parent.

Imports nothing of Assay; imported by the control plane, the sandbox worker and the learner.
"""
