from streamsvm.kafka import log_range


def test_x(broker):
    t = broker.topic()
    assert log_range(broker.connection, t, 0) == (0, 0)
