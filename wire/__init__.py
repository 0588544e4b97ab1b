"""What every Assay program stands on outside Django: the object store, heartbeats, and dying with one's parent.

Imports nothing of Assay; imported by the control plane, the sandbox worker and the learner.
"""
