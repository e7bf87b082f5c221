"""The rows of a fleet, from a Prometheus; from ttmem's recording rules where they are installed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TypeVar

from ttmem.errors import BadInput, NoServer, TtmemError
from ttmem.events import Amounts
from ttmem.fleet import recorded
from ttmem.fleet.prometheus import Prometheus, Sample, quoted
from ttmem.fleet.rows import Fleet, FleetDevice, FleetHost, FleetProcess, HostView

STALE_S = 120  # the same as in the alert TtmemStale
UNRECORDED = "6h"  # without recording rules, how long a host that stopped answering is listed
LAST = f"max by (instance) (max_over_time(ttmem_snapshot_time_seconds[{UNRECORDED}]))"
GRACE_S = 5.0  # a sample is slightly younger than its snapshot
NOW = "max by (instance) (ttmem_snapshot_time_seconds%s) or vector(time())"
DOWN = "up%s == 0"
# Targets that do not answer, of jobs that are ttmem's: named as in docs/fleet.md, or all that answer have its metrics.
# A job of node_exporters may have targets that nobody expects to run ttmem.
AWAITED = (
    "up == 0 and on(job) ttmem_build_info"
    " unless on(job) (up == 1 unless on(job, instance) ttmem_build_info)"
    ' or up{job=~"(.*/)?ttmem"} == 0'
)
SILENT = "no answer"
GONE = "no longer scraped"
OLD = "not renewed, or its clock is slow"
_DEVICE_METRICS = (
    "ttmem_device_info|ttmem_l1_used_bytes|ttmem_l1_capacity_bytes|ttmem_memory_used_bytes"
    "|ttmem_memory_capacity_bytes|ttmem_anomalies|ttmem_temperature_celsius|ttmem_power_watts"
)
_HOST_METRICS = f"{_DEVICE_METRICS}|ttmem_processes|ttmem_process_memory_bytes"
PROCESS_LABELS = ("user", "program", "namespace", "pod", "container", "job")

N = TypeVar("N", int, float)


def ask(prometheus: Prometheus, host: str | None) -> Fleet | HostView:
    """All hosts, or one. TtmemError whatever goes wrong."""
    try:
        return ask_fleet(prometheus) if host is None else ask_host(prometheus, host)
    except TtmemError:
        raise
    except Exception as trouble:  # unforeseen garbage must not end a monitor
        problem = f"{prometheus.url} answers nonsense: {type(trouble).__name__}: {trouble}"
        raise TtmemError(problem) from trouble


def ask_fleet(prometheus: Prometheus) -> Fleet:
    """All hosts, the worst first, and the fullest devices of all."""
    now, fresh = _now(prometheus.query(NOW % ""))
    named = _recorded(prometheus)
    rules = bool(named[recorded.SEEN])
    if not rules:
        named = {recorded.SEEN: prometheus.query(LAST)}
    awaited = {sample.instance for sample in prometheus.query(AWAITED)}
    times: dict[str, float | None] = dict.fromkeys(awaited)
    times |= {sample.instance: sample.value for sample in named[recorded.SEEN]} | fresh
    if not times:
        raise NoServer(
            f"{prometheus.url} has no metrics of ttmem; docs/fleet.md shows how to set it up"
        )
    down = awaited | {sample.instance for sample in prometheus.query(DOWN % "")}
    if not rules:
        raw = {**recorded.OF_HOSTS, **recorded.OF_WORST}
        named |= {name: prometheus.query(expression) for name, expression in raw.items()}
    figures = _by_host(named)
    hosts = []
    for name, when in times.items():
        stale = _staleness(now, fresh.get(name), name in down)
        hosts.append(_host(name, when, stale, figures.get(name, {})))
    hosts.sort(key=lambda host: (*(-part for part in host.badness), host.name))
    ranked = [sample for name in recorded.OF_WORST for sample in named.get(name, ())]
    worst = _worst_devices(prometheus, ranked)
    return Fleet(int(now * 1e9), prometheus.url, rules, tuple(hosts), worst)


def ask_host(prometheus: Prometheus, name: str) -> HostView:
    """One host with its devices and processes. BadInput if Prometheus has no metrics of it from the last day."""
    instance = _instance(prometheus, name)
    where = f"{{instance={quoted(instance)}}}"
    now, fresh = _now(prometheus.query(NOW % where))
    wanted = f'{{__name__=~"{_HOST_METRICS}",instance={quoted(instance)}}}'
    if instance in fresh:
        seen = fresh[instance]
        found = prometheus.query(wanted)
    else:  # its last samples; a window, because a failed scrape ends all its series
        (last,) = prometheus.query(_last_seen(where))
        seen = last.value
        found = prometheus.query(f"last_over_time({wanted}[90s])", seen + GRACE_S)
    down = bool(prometheus.query(DOWN % where))
    stale = _staleness(now, fresh.get(instance), down)
    devices = _devices(found)
    failed = prometheus.query(recorded.failed(where))
    host = FleetHost(
        instance,
        int(seen * 1e9),
        stale,
        _boards(devices),
        len(devices),
        max(_known(device.l1_share for device in devices), default=None),
        max(_known(device.dram_share for device in devices), default=None),
        _sum(device.dram_used for device in devices),
        _sum(device.dram_capacity for device in devices),
        _sum(int(sample.value) for sample in found if sample.name == "ttmem_processes"),
        _sum(round(sample.value) for sample in failed),
        sum(device.anomalies for device in devices),
    )
    ordered = sorted(devices, key=lambda device: (-device.fullness, device.unique_id))
    return HostView(int(now * 1e9), prometheus.url, host, tuple(ordered), _processes(found))


def _instance(prometheus: Prometheus, name: str) -> str:
    """The `instance` of a host, which may be named without the port."""
    either = f"instance=~{quoted(f'{_literal(name)}(:[0-9]+)?')}"
    found = sorted(sample.instance for sample in prometheus.query(_last_seen(f"{{{either}}}")))
    if name in found or len(found) == 1:
        return name if name in found else found[0]
    if found:
        raise BadInput(
            f"there are several hosts {name}: {', '.join(found[:5])}; give the port, too"
        )
    raise BadInput(
        f"{prometheus.url} has no metrics of a host {name!r:.100} from the last day;"
        " omit --host to list all"
    )


def _literal(text: str) -> str:
    """A regular expression that matches only this text."""
    return "".join(sign if sign.isalnum() or sign in "_-:" else f"\\{sign}" for sign in text)


def _last_seen(where: str) -> str:
    window = f"[{recorded.REMEMBERED}]"
    return f"max by (instance) (max_over_time(ttmem_snapshot_time_seconds{where}{window}))"


def _now(samples: Iterable[Sample]) -> tuple[float, dict[str, float]]:
    """The time in Prometheus, and that of the latest snapshot of each host."""
    times = {sample.instance: sample.value for sample in samples}
    return times.pop("", 0.0), times


def _staleness(now: float, latest: float | None, down: bool) -> str | None:
    if latest is not None:
        return OLD if now - latest > STALE_S else None
    return SILENT if down else GONE


def _recorded(prometheus: Prometheus) -> dict[str, list[Sample]]:
    """What ttmem's rules recorded about all hosts, by metric name, in one query: each costs a round trip."""
    names = "|".join((recorded.SEEN, *recorded.OF_HOSTS, *recorded.OF_WORST))
    found: dict[str, list[Sample]] = defaultdict(list)
    for sample in prometheus.query(f'{{__name__=~"{names}"}}'):
        found[sample.name].append(sample)
    return found


def _by_host(named: Mapping[str, list[Sample]]) -> Mapping[str, dict[str, list[Sample]]]:
    found: dict[str, dict[str, list[Sample]]] = defaultdict(lambda: defaultdict(list))
    for name in recorded.OF_HOSTS:
        for sample in named.get(name, ()):
            found[sample.instance][name].append(sample)
    return found


def _host(
    name: str, seen: float | None, stale: str | None, figures: Mapping[str, list[Sample]]
) -> FleetHost:
    def value(of: str) -> float | None:
        return figures[of][0].value if figures.get(of) else None

    def whole(of: str) -> int | None:
        return None if (found := value(of)) is None else round(found)

    boards = {
        sample.labels.get("board", ""): round(sample.value)
        for sample in figures.get(recorded.BOARDS, ())
    }
    seen_ns = None if seen is None else int(seen * 1e9)
    if stale is not None:
        return FleetHost(name, seen_ns, stale, boards)
    return FleetHost(
        name,
        seen_ns,
        stale,
        boards,
        whole(recorded.DEVICES),
        value(recorded.L1_FULLEST),
        value(recorded.DRAM_FULLEST),
        whole(recorded.DRAM_USED),
        whole(recorded.DRAM_CAPACITY),
        whole(recorded.PROCESSES),
        whole(recorded.FAILED),
        whole(recorded.ANOMALIES) or 0,
    )


def _worst_devices(prometheus: Prometheus, ranked: Iterable[Sample]) -> tuple[FleetDevice, ...]:
    chosen = {(sample.instance, sample.labels.get("device", "")) for sample in ranked}
    if not chosen:
        return ()
    either = quoted("|".join(sorted({_literal(device) for _, device in chosen})))
    found = prometheus.query(f'{{__name__=~"{_DEVICE_METRICS}",device=~{either}}}')
    devices = [device for device in _devices(found) if (device.host, device.unique_id) in chosen]
    devices.sort(key=lambda device: (-device.fullness, device.host, device.unique_id))
    return tuple(devices[: recorded.WORST])


def _devices(samples: Iterable[Sample]) -> list[FleetDevice]:
    labels: dict[tuple[str, str], Mapping[str, str]] = {}
    amounts: dict[tuple[str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for sample in samples:
        if "device" not in sample.labels or sample.name == "ttmem_process_memory_bytes":
            continue
        device = sample.instance, sample.labels["device"]
        amount = amounts[device]
        if sample.name == "ttmem_device_info":
            labels[device] = sample.labels
        elif sample.name == "ttmem_anomalies":
            amount[sample.name] += round(sample.value)
        elif sample.labels.get("memory", "dram") == "dram":
            amount[sample.name] = sample.value
    return [_device(*device, labels.get(device, {}), amount) for device, amount in amounts.items()]


def _device(
    host: str, unique_id: str, labels: Mapping[str, str], amounts: Mapping[str, float]
) -> FleetDevice:
    def whole(name: str) -> int | None:
        return None if (value := amounts.get(name)) is None else round(value)

    return FleetDevice(
        host,
        unique_id,
        labels.get("id"),
        labels.get("board"),
        labels.get("position"),
        whole("ttmem_l1_used_bytes"),
        whole("ttmem_l1_capacity_bytes"),
        whole("ttmem_memory_used_bytes"),
        whole("ttmem_memory_capacity_bytes"),
        whole("ttmem_anomalies") or 0,
        amounts.get("ttmem_temperature_celsius"),
        amounts.get("ttmem_power_watts"),
    )


def _boards(devices: Iterable[FleetDevice]) -> Mapping[str, int]:
    return dict(Counter(device.board or "" for device in devices))


def _processes(samples: Iterable[Sample]) -> tuple[FleetProcess, ...] | None:
    """By label. Where the target has the same label, such as `job`, Prometheus renames ours to `exported_job`."""
    found = list(samples)
    of_target = {
        name for sample in found if sample.name == "ttmem_processes" for name in sample.labels
    }
    names = [f"exported_{name}" if name in of_target else name for name in PROCESS_LABELS]
    sums: dict[tuple[str | None, ...], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    devices: dict[tuple[str | None, ...], set[str]] = defaultdict(set)
    for sample in found:
        if sample.name == "ttmem_process_memory_bytes":
            key = tuple(sample.labels.get(name) for name in names)
            sums[key][sample.labels.get("memory", "")] += round(sample.value)
            devices[key].add(sample.labels.get("device", ""))
    if not sums:
        return None
    rows = []
    for key, held in sums.items():
        user, program, namespace, pod, container, job = key
        amounts = (held[kind] for kind in Amounts._fields)
        rows.append(
            FleetProcess(user, program, namespace, pod, container, job, len(devices[key]), *amounts)
        )
    return tuple(sorted(rows, key=lambda row: -row.total))


def _known(values: Iterable[N | None]) -> list[N]:
    return [value for value in values if value is not None]


def _sum(values: Iterable[int | None]) -> int | None:
    known = _known(values)
    return sum(known) if known else None
