"""`myxtts train` as several processes: starting them here, and being one of them."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from myxtts.cli import output

if TYPE_CHECKING:
    from myxtts.config.config import XTTSConfig
    from myxtts.replicas.cluster import Cluster


def launch(settings: XTTSConfig, replicas: int) -> int:
    """Start so many replicas of this command on this machine; the exit code of all of them."""
    from myxtts.pipeline.request import check_request
    from myxtts.replicas.cluster import Cluster
    from myxtts.replicas.launcher import Launcher, own_command
    from myxtts.replicas.sharing import check_machine_for, own_share

    check_machine_for(settings, replicas)
    here = Cluster(tuple(f"here:{n + 1}" for n in range(replicas)), 0, "--replicas")
    check_request(own_share(settings, here).data.device_request())
    launcher = Launcher(own_command(), replicas=replicas)
    return launcher.run(max_restarts=settings.training.max_restarts)


def prepare_replica(settings: XTTSConfig, cluster: Cluster) -> XTTSConfig:
    """The settings of one of them; it is told of its place before TensorFlow is loaded."""
    from myxtts.replicas.launcher import LAUNCHED, stop_with_launcher
    from myxtts.replicas.sharing import own_share, show_own_card

    if not cluster.is_first and not output.debug_asked:
        logging.getLogger("myxtts").setLevel(logging.WARNING)  # the first tells of all
    settings = own_share(settings, cluster)
    show_own_card(settings, cluster)
    if LAUNCHED in os.environ:
        stop_with_launcher()
        if os.environ[LAUNCHED] != "0":  # a run that was reset must not be reset again
            settings.training.resume = "auto"
    return settings
