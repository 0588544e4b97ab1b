"""python -m learner.serve: the embedded policy server."""

import argparse
from pathlib import Path

import torch
import uvicorn

from learner.serve.app import make_app
from learner.serve.engine import Engine
from learner.serve.shelf import Shelf
from wire.store import open_store

_DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}
_GRACE_SECONDS = 1


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m learner.serve", description="Sample from policy versions.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--store", required=True, help="the object store: a folder or s3://bucket/prefix")
    parser.add_argument("--cache", type=Path, required=True, help="where weights out of a bucket are kept")
    parser.add_argument("--threads", type=int, default=2, help="threads of torch")
    parser.add_argument("--versions", type=int, default=3, help="versions kept in memory")
    parser.add_argument("--dtype", choices=sorted(_DTYPES), default="bfloat16")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    engine = Engine()
    shelf = Shelf(open_store(arguments.store), arguments.cache, engine, arguments.versions, _DTYPES[arguments.dtype])
    uvicorn.run(
        make_app(shelf, engine),
        host=arguments.host,
        port=arguments.port,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )


if __name__ == "__main__":
    main()
