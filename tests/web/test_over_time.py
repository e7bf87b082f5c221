"""What devices held over a whole recording: thinned, and no maximum is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from ttmem.recording import Recording
from ttmem.recording.replay import SAMPLED
from ttmem.web.http import readings as module
from ttmem.web.http.readings import over_time

GOLDEN = Path(__file__).parent.parent / "data" / "recordings" / "version-1.ttmem"


@pytest.mark.parametrize("parts", [1, 3, 4000])
def test_peaks_are_those_of_the_end_however_few_parts_there_are(parts: int) -> None:
    with Recording(str(GOLDEN)) as recording:
        found = over_time(recording, parts)
        end = recording.at("end")

    for device in end.devices:
        if device.unique_id not in found["sampled"]:
            columns = found["devices"][device.unique_id]
            assert max(columns["dram"]) == device.memory.dram.peak
            assert max(columns["l1_used"]) == device.l1_peak
            assert columns["time_ns"] == sorted(columns["time_ns"])
            assert len(columns["time_ns"]) <= 3 * parts
    assert set(found["devices"]) <= {device.unique_id for device in end.devices}


def test_of_a_very_long_recording_there_are_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_RECORDS", 1)
    with Recording(str(GOLDEN)) as recording:
        found = over_time(recording, 100)
        samples = list(recording.samples())

    assert found["sampled"] == sorted({device for device, _, _ in samples})
    for device, time, amounts in samples:
        columns = found["devices"][device]
        if time in columns["time_ns"]:
            at = columns["time_ns"].index(time)
            assert tuple(columns[name][at] for name in SAMPLED) == amounts
