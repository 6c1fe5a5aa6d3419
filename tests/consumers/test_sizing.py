"""What a rate takes: the sum by hand, and the command on this machine."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from consumers.cli.app import app
from consumers.sizing.demand import BUSY, Constants, Demand, sizing_of
from consumers.sizing.measuring import PointFormat, measure
from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig
from streamsvm.errors import ConfigurationError

CONSTANTS = Constants(
    decode_us=1.5, learn_us=0.5, point_bytes=100.0, partition_bytes=2e6, training_s=0.5, training_points=900
)
DEMAND = Demand(rate=1e6, partitions=8, network_gbit=10.0)


def test_the_sum_is_that_by_hand() -> None:
    """A million points a second of two microseconds: two cores, three workers of 80 %; 100 MB/s."""
    found = sizing_of(DEMAND, CONSTANTS)
    assert (found.cores, found.workers, found.least_partitions) == (2.0, 3, 3)
    assert (found.network_mb_s, found.state_mb) == (100.0, 16.0)
    assert found.most == {"partitions": 8 * BUSY / 2e-6, "network": pytest.approx(1e7)}
    assert (found.bottleneck, found.fits) == ("partitions", True)


@pytest.mark.parametrize(
    ("demand", "bottleneck", "fits"),
    [
        ({"partitions": 2}, "partitions", False),
        ({"partitions": 100, "network_gbit": 0.5}, "network", False),
        ({"partitions": 100, "network_gbit": 1.0}, "network", True),
        ({"rate": 4e6}, "partitions", False),
    ],
)
def test_what_is_too_small_first_is_named(demand: dict[str, float], bottleneck: str, fits: bool) -> None:
    """A partition is never faster than one worker, nor all of them than the link."""
    found = sizing_of(replace(DEMAND, **demand), CONSTANTS)  # type: ignore[arg-type]
    assert (found.bottleneck, found.fits) == (bottleneck, fits)


@pytest.mark.parametrize("point_format", ["json", "json-array", "arrow"])
def test_constants_are_of_points_that_were_decoded_and_learned(point_format: PointFormat) -> None:
    """Every made point is accepted; arrays are shorter than single records, and Arrow shorter than both."""
    coreset = CoresetConfig(memory_points=2_000, max_partitions=4)
    config = ModelConfig(points=PointsConfig(dimension=3), coreset=coreset)
    found = measure(config, 4, point_format, rows=4_000, points=2_000)
    assert found.decode_us > 0.0
    assert found.learn_us > 0.0
    assert found.training_s > 0.0
    assert 0 < found.training_points <= 2_000 / 4
    assert 0 < found.partition_bytes <= 2_000 / 4 * config.points.point_bytes
    least, most = {"json": (50, 120), "json-array": (50, 120), "arrow": (12, 25)}[point_format]
    assert least < found.point_bytes < most


def test_the_command_says_it_in_json_and_refuses_what_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A budget too small for so many partitions is refused by the names of the options."""
    monkeypatch.setattr("consumers.sizing.measuring.LEARNED_ROWS", 4_000)
    monkeypatch.setattr("consumers.sizing.measuring.measure", lambda *_, **__: CONSTANTS)
    said = CliRunner().invoke(app, ["simulate-scale", "--rate", "1e6", "--partitions", "8", "--json"])
    assert said.exit_code == 0, said.output
    assert json.loads(said.stdout)["bottleneck"] == "partitions"
    text = CliRunner().invoke(app, ["simulate-scale", "--rate", "1e6"]).stdout
    assert "keep 2.00 cores busy: 3 workers" in text
    assert "it fits; what becomes too small first, at 3,200,000 points a second" in text
    refused = CliRunner().invoke(
        app, ["simulate-scale", "--rate", "1e6", "--partitions", "999", "--memory-points", "64"]
    )
    assert isinstance(refused.exception, ConfigurationError)
    assert "--memory-points 64 does not suit --partitions 999" in refused.exception.what
