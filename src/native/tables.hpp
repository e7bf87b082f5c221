// Made by make_tables.py (`make tables`) from the Python of the same names. Edit that instead.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ttmem {

// Columns of a row that belong together: one for each kind of memory, or of kernel.
template <std::size_t N>
struct Columns {
    Columns(const std::uint64_t (&from)[N]) { std::copy_n(from, N, values); }
    std::uint64_t values[N];
};

}  // namespace ttmem

namespace ttmem {

enum Op : std::uint8_t {
    ALLOC = 1,
    FREE = 2,
    CB_ALLOC = 8,
    CB_FREE = 9,
    KERNEL_LOAD = 10,
    KERNEL_UNLOAD = 11,
    PROGRAM_DISPATCH = 16,
    PROGRAM_DESTROY = 17,
    BINARY_STATUS = 18,
    RING = 19,
    COUNTERS = 20,
    CACHE_ENTRIES = 21,
    PROGRAM_NAME = 22,
};

enum Notice : std::uint8_t {
    DEVICE_OPENED = 64,
    DEVICE_CLOSED = 65,
    PROGRAM_CREATED = 66,
    PROGRAM_COMPILED = 67,
    PROGRAM_FINALIZED = 68,
    TRACE_BEGUN = 69,
    TRACE_CAPTURED = 70,
    TRACE_REPLAYED = 71,
    TRACE_RELEASED = 72,
    ALLOCATION_FAILED = 73,
    PHASE_ENTERED = 74,
    CB_REFUSED = 75,
    MARKED = 76,
};

enum Control : std::uint8_t {
    BATCH = 128,
    OPEN_PROCESS = 129,
    RELEASE_PROCESS = 130,
    ADD_DEVICE = 131,
    CLEAR_DEVICE = 132,
    BIND = 133,
    MOVE_ACCOUNT = 134,
    DEFINE_CORES = 135,
    FOLLOW_TABLE = 136,
    BEGIN_RESYNC = 137,
    END_RESYNC = 138,
    RESET_PEAK = 139,
    L1_BANKS = 140,
};

enum Flag : std::uint16_t {
    KIND_KNOWN = 1,
    GLOBAL = 2,
    DATAFLOW = 4,
    RESENT = 8,
    CACHE_HIT = 16,
    CACHE_MISS = 32,
    FOOTPRINT = 64,
    WITH_DEVICE = 128,
    SAME_SLOT = 256,
};

constexpr std::uint8_t FIRST_NOTICE = 64;  // from here on: Notice, which changes no account
constexpr std::uint8_t BLANK = 126;  // in a recording: an event on a device that was not selected

enum MemoryKind : std::uint8_t {
    KIND_DRAM = 0,
    KIND_L1 = 1,
    KIND_SYSTEM_MEMORY = 2,
    KIND_L1_SMALL = 3,
    KIND_TRACE = 4,
};

constexpr int KINDS = 5;

enum KernelType : std::uint8_t {
    KERNEL_APPLICATION = 0,
    KERNEL_FABRIC = 1,
    KERNEL_DISPATCH = 2,
};

constexpr int KERNEL_TYPES = 3;

enum BinaryStatus : std::uint8_t {
    NOT_SENT = 0,
    IN_FLIGHT = 1,
    COMMITTED = 2,
};

enum class FindingCode : std::uint8_t {
    UNKNOWN_FREE = 1,
    BUFFER_RESIZED = 2,
    UNKNOWN_CB_FREE = 3,
    UNKNOWN_UNLOAD = 4,
    KERNEL_RESIZED = 5,
    TABLE_FULL = 6,
    STATUS_BACKWARDS = 7,
    CB_MAP_FULL = 8,
    REJECTED = 9,
    DOUBLE_FREE = 10,
    DOUBLE_CB_FREE = 11,
    DOUBLE_UNLOAD = 12,
};

constexpr int FINDING_CODES = 12;

enum class Reject : std::uint8_t {
    OP = 1,
    KIND = 2,
    SIZE_ZERO = 3,
    SIZE_HUGE = 4,
    CORES = 5,
};

enum class Stop : std::uint8_t {
    END = 0,
    ATTENTION = 1,
    OTHER_PID = 2,
};

struct CounterColumns {
    std::uint64_t loads;
    std::uint64_t unloads;
    std::uint64_t dispatches;
    std::uint64_t hits;
    std::uint64_t misses;
};

struct AccountRow {
    std::uint64_t process;
    std::uint64_t device;
    Columns<5> requested;
    Columns<5> held;
    Columns<5> counts;
    Columns<5> unreserved;
    std::uint64_t cb_demand;
    std::uint64_t cb_count;
    std::uint64_t cb_unplaced;
    std::uint64_t cb_cached;
    std::uint64_t cb_map_full;
    std::uint64_t cb_resident;
    std::uint64_t cb_dataflow;
    std::uint64_t cb_used;
    std::uint64_t cb_shared;
    std::uint64_t cb_shared_unknown;
    Columns<3> footprint;
    Columns<3> kernels;
    std::uint64_t dram_binaries;
    std::uint64_t unknown_binaries;
    std::uint64_t programs;
    CounterColumns counters;
    std::uint64_t cache_seen;
    std::uint64_t cache_entries;
    std::uint64_t cache_entries_known;
    std::uint64_t ring_occupied;
    std::uint64_t ring_capacity;
    std::uint64_t ring_wraps;
    std::uint64_t ring_syncs;
    std::uint64_t ring_programs;
    std::uint64_t ring_time;
    std::uint64_t live;
};

struct DeviceRow {
    Columns<5> held;
    Columns<5> peak;
    Columns<5> peak_time;
    std::uint64_t cb_used;
    std::uint64_t l1_used;
    std::uint64_t l1_peak;
    std::uint64_t l1_peak_time;
    std::uint64_t distinct;
    std::uint64_t distinct_bytes;
    std::uint64_t unknown_contents;
    CounterColumns counters;
    std::uint64_t cache_seen;
};

struct BufferRow {
    std::uint64_t process;
    std::uint64_t device;
    std::uint64_t kind;
    std::uint64_t id;
    std::uint64_t size;
    std::uint64_t reserved;
    std::uint64_t address;
    std::uint64_t time;
    std::uint64_t references;
    std::uint64_t name;
    std::uint64_t site;
    std::uint64_t phase;
};

struct CircularBufferRow {
    std::uint64_t process;
    std::uint64_t device;
    std::uint64_t flags;
    std::uint64_t address;
    std::uint64_t size;
    std::uint64_t per_core;
    std::uint64_t program;
    std::uint64_t time;
    std::uint64_t references;
    std::uint64_t cores;
};

struct KernelRow {
    std::uint64_t process;
    std::uint64_t device;
    std::uint64_t type;
    std::uint64_t id;
    std::uint64_t binary;
    std::uint64_t binary_known;
    std::uint64_t cores;
    std::uint64_t footprint;
    std::uint64_t content;
    std::uint64_t program;
    std::uint64_t dispatches;
    std::uint64_t time;
    std::uint64_t name;
    std::uint64_t site;
    std::uint64_t loads;
};

struct ProgramRow {
    std::uint64_t process;
    std::uint64_t device;
    std::uint64_t id;
    std::uint64_t status;
    std::uint64_t status_known;
    std::uint64_t dispatches;
    std::uint64_t hits;
    std::uint64_t misses;
    std::uint64_t last_dispatch;
    std::uint64_t resident;
    std::uint64_t resident_cores;
    std::uint64_t name;
    std::uint64_t site;
    std::uint64_t last_site;
};

struct FindingRow {
    std::uint64_t anomaly;
    std::uint64_t process;
    std::uint64_t device;
    std::uint64_t times;
    std::uint64_t bytes;
    std::uint64_t last_id;
};

struct TotalsRow {
    std::uint64_t record;
    std::uint64_t time;
    std::uint64_t device;
    std::uint64_t dram;
    std::uint64_t l1;
    std::uint64_t l1_small;
    std::uint64_t trace;
    std::uint64_t cb;
};

struct BufferChangeRow {
    std::uint64_t record;
    std::uint64_t time;
    std::uint64_t begins;
    std::uint64_t process;
    std::uint64_t device;
    std::uint64_t kind;
    std::uint64_t id;
    std::uint64_t size;
    std::uint64_t reserved;
    std::uint64_t address;
    std::uint64_t since;
    std::uint64_t name;
    std::uint64_t site;
    std::uint64_t phase;
};

}  // namespace ttmem

namespace ttmem::probe {

enum Section : std::uint8_t {
    COUNTERS = 0,
    ACTIVITY = 1,
    RING = 2,
    LIVE_KEYS = 3,
    LIVE = 4,
    STRINGS = 5,
    TEXT = 6,
    DEVICES = 7,
    SETS = 8,
    CORES = 9,
    FEATURES = 10,
    FAILURES = 11,
};

enum RegionState : std::uint8_t {
    MAKING = 0,
    IN_USE = 1,
    ENDED = 2,
};

enum Option : std::uint16_t {
    CALL_SITES = 1,
    STACKS = 2,
};

enum Counted : std::uint8_t {
    CB_DEMAND = 5,
    DATAFLOW_DEMAND = 6,
    KERNEL_BINARIES = 7,
};

enum LiveType : std::uint8_t {
    BUFFER = 1,
    CIRCULAR_BUFFER = 2,
    PROGRAM = 3,
    KERNEL = 4,
    LEFT_BUFFER = 5,
    LAID_OUT = 6,
};

}  // namespace ttmem::probe
