"""Before torch is loaded: one thread, because the networks of the tests are tiny.

On a busy machine two threads spend a hundred times longer waiting for each other than computing.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
