"""One suite for every back end of boxes, each test named for its rule.

test_file_checks and test_command_checks are 44 checks that every way to run a model's commands should pass, numbered.
The others hold attacks, r1 to r60; each test ends with nothing left on the host, a next box that works, and a host that
answers (conftest). Rules that are not of this layer stand where theirs is:

- r10, r13: text for the database, the model and the browser: test_observation, apps/trajectories, apps/dashboard
- r22, r23: a client that goes, a worker that is killed with its rollouts: test_jobs, tests/chaos; the boxes' part: here
- r24: a database that goes for a while: tests/chaos; an Engine that is killed: here
- r28: the way out to listed hosts, through the filtering proxy: sandbox/network
- r48: no terminal of a box is ever resized; large inputs: test_sessions
- r55: what a box that was used may hand to the next: sandbox/test_pool
- r57: what is missing in an image: sandbox/images
- r58: a host that cannot isolate: sandbox/test_preflight, sandbox/test_delegation, sandbox/test_ordinary_users
"""
