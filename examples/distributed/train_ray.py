"""The training of `train.py` under Ray Train: python train_ray.py digits|tagger [--ranks N] [the options of train.py]

Ray starts the processes, on one or several machines, and `torch.distributed` in them; the rest is the same.
Optional: it needs the package `ray[train]`. Ray writes its records to the folder `ray-results`.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer
from train import Training, parse_options


def work(options: argparse.Namespace) -> None:
    """Trains in one process."""
    Training(options).run()


def main() -> None:
    """Trains with the options of the command line."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--ranks", type=int, default=2)
    own, others = parser.parse_known_args()
    options = parse_options(others)
    # Ray starts processes in other folders.
    for name in ("data", "checkpoint", "weights"):
        path = getattr(options, name)
        setattr(options, name, path and path.resolve())
    paths = [str(Path(__file__).resolve().parent), os.environ.get("PYTHONPATH", "")]
    ray.init(runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(paths)}}, include_dashboard=False)
    trainer = TorchTrainer(
        lambda: work(options),
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ScalingConfig(num_workers=own.ranks, resources_per_worker={"CPU": 0.5}),
        run_config=RunConfig(storage_path=str(Path("ray-results").resolve())),
    )
    trainer.fit()


if __name__ == "__main__":
    main()
