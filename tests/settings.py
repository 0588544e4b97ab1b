"""Settings of the test session: its own data folder, and with it its own PostgreSQL and Valkey.

In the environment too, so that every process that a test starts sees the same ones.
"""

import os

from tests.servers import make_data_folder

os.environ["ASSAY_DATA"] = str(make_data_folder())
for _name in ("ASSAY_DATABASE_URL", "ASSAY_BROKER_URL", "ASSAY_CHANNELS_URL", "ASSAY_STORE_URL"):
    os.environ.pop(_name, None)
os.environ["ASSAY_SECRET_KEY"] = "tests"

from controlplane.settings import *  # noqa: E402, F403
from controlplane.settings import DATABASES, STORAGES  # noqa: E402

# Processes that a test starts use the tests' database under its plain name.
DATABASES["default"]["TEST"] = {"NAME": DATABASES["default"]["NAME"]}

# Static files from where they lie: nothing is collected.
STORAGES["staticfiles"] = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = True
