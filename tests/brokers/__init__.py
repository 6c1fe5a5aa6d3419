"""Brokers for tests: which one can be had here, how to start it, how to stop it for sure.

`STREAMSVM_TEST_BROKER` (env, jvm or none) forces a branch; without it the first that can be had is taken: the broker at
`KAFKA_BOOTSTRAP_SERVERS`, Apache Kafka from Maven Central as a plain process. `STREAMSVM_TEST_KAFKA` names another
release of it, such as 3.9.1. A broker from the environment needs the settings in `settings.py`, above all
``auto.create.topics.enable=false``. `python -m tests.brokers` starts one for people.
"""

from tests.brokers.choice import NoBroker, RealBroker, start_real_broker
from tests.brokers.jvm import JvmBroker

__all__ = ["JvmBroker", "NoBroker", "RealBroker", "start_real_broker"]
