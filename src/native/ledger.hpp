// The accounts: every live buffer, circular buffer, kernel and program, and the sums over them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coverage.hpp"
#include "event.hpp"
#include "links.hpp"
#include "live_blocks.hpp"
#include "recent_frees.hpp"
#include "table.hpp"

namespace ttmem {

constexpr std::uint64_t MAX_LIVE = 1ull << 22, MAX_STEPS = 8'000'000;
constexpr std::uint64_t MAX_BYTES = 1ull << 40;  // bytes in one report: with MAX_LIVE of them, a sum stays below 2^63
constexpr std::size_t MAX_DEVICES = 0xFFFF, MAX_PROCESSES = 1u << 16, MAX_L1_BANKS = 0xFFFF;
constexpr std::uint32_t MAX_OWNERS = 1u << 20;
constexpr std::size_t MAX_FINDINGS = 4096;
constexpr std::uint32_t MAX_REFERENCES = 1u << 20;
constexpr std::uint32_t UNBOUND = 0xFFFFFFFF;

constexpr std::uint32_t bit(FindingCode anomaly) { return 1u << static_cast<int>(anomaly); }

struct Key {
    std::uint64_t id, second;  // second: distinguishes circular buffers with the same address, else 0
    std::uint32_t process;
    std::uint16_t device;
    std::uint16_t kind;
    bool operator==(const Key& o) const {
        return id == o.id && second == o.second && process == o.process && device == o.device && kind == o.kind;
    }
    RecentFrees::Name name(RecentFrees::What what) const { return {id, second, device, kind, what}; }
};

struct BufferKey {
    std::uint64_t id;
    std::uint32_t process;
    std::uint16_t device, kind;
    bool operator==(const BufferKey& o) const {
        return id == o.id && process == o.process && device == o.device && kind == o.kind;
    }
    RecentFrees::Name name(RecentFrees::What what) const { return {id, 0, device, kind, what}; }
};

struct KeyHash {
    std::uint64_t seed;  // random per ledger, so that clients cannot choose ids that collide
    std::size_t operator()(const Key& key) const {
        const std::uint64_t where = (std::uint64_t{key.process} << 32) | (std::uint64_t{key.device} << 16) | key.kind;
        return mix(key.id ^ seed) ^ mix(key.second + 0x9E3779B97F4A7C15ull * (where ^ seed));
    }
    std::size_t operator()(const BufferKey& key) const {
        return (*this)(Key{key.id, 0, key.process, key.device, key.kind});
    }
};

// Entries of one process are chained, so that releasing a dead process costs no more than what it held.
template <typename T>
struct Chained {
    T* previous = nullptr;
    T* next = nullptr;
};

template <typename T>
struct Chain {
    T* head = nullptr;
    void push(T& item) {
        item.previous = nullptr;
        item.next = head;
        if (head) {
            head->previous = &item;
        }
        head = &item;
    }
    void drop(T& item) {
        (item.previous ? item.previous->next : head) = item.next;
        if (item.next) {
            item.next->previous = item.previous;
        }
    }
};

// There may be millions of them, so bounded fields have only as many bits as they need.
struct Buffer : Chained<Buffer> {
    BufferKey key;
    std::uint64_t address, time;
    std::uint64_t size : 41, references : 21;
    std::uint64_t reserved : 41, generation : 8, order_high : 15;
    std::uint32_t order_low, name, site, phase;
    std::uint64_t order() const { return std::uint64_t{order_high} << 32 | order_low; }
    void set_order(std::uint64_t order) {
        order_high = order >> 32 & 0x7FFF;
        order_low = static_cast<std::uint32_t>(order);
    }
    std::uint64_t held() const { return reserved ? reserved : size; }
    bool placed() const { return reserved && address; }
};
static_assert(sizeof(Buffer) == 80 && MAX_BYTES < 1ull << 41 && MAX_REFERENCES < 1u << 21, "see the benchmark's limit");

struct Program;

struct CircularBuffer : Chained<CircularBuffer> {
    Key key;
    std::uint64_t size, per_core, address, time;
    Program* program;
    CircularBuffer *program_previous, *program_next;   // the other CBs of the program
    CircularBuffer *same_id_previous, *same_id_next;   // latest first
    std::uint32_t references, cores;
    std::uint16_t flags;
    std::uint8_t generation;
    std::shared_ptr<const CoreMask> mask;  // null: cores unknown
    bool counted() const { return !(flags & GLOBAL); }
};

// The circular buffers at one address, latest first.
struct SameId {
    Key key;
    CircularBuffer* latest = nullptr;
};

struct Kernel : Chained<Kernel> {
    Key key;
    std::uint64_t binary, footprint, content, time;
    std::uint64_t loads;        // 0: it was loaded before it was first reported
    std::uint64_t repeats;      // loads of the live kernel: some clients report dispatches like this
    std::uint64_t runs_before;  // dispatches of its program when it was loaded
    Program* program;
    Kernel *program_previous, *program_next;
    std::uint32_t cores, name, site;
    std::uint8_t type, generation;
    bool binary_known;
    std::uint64_t dispatches() const;
};

struct Program : Chained<Program> {
    Key key;
    CircularBuffer* circular_buffers = nullptr;
    Kernel* kernels = nullptr;
    std::uint64_t dispatches = 0, hits = 0, misses = 0, last_dispatch = 0;
    std::uint64_t runs = 0;  // the part of those dispatches that was reported as dispatches
    std::uint64_t resident_bytes = 0;
    CoreMask cores;     // from its CBs and kernels
    CoreMask resident;  // where it was dispatched last
    std::vector<std::pair<CoreMask, std::uint64_t>> footprint;  // CB bytes per core at the last dispatch
    bool footprint_stale = true, had_kernels = false, dying = false;
    std::uint32_t name = 0, site = 0;  // of the code that created it
    std::uint32_t last_site = 0;       // of the code that ran it last
    std::uint8_t status = 0;
    bool status_known = false;
    std::uint8_t generation = 0;
};

inline std::uint64_t Kernel::dispatches() const { return repeats + (program ? program->runs - runs_before : 0); }

struct Counters {
    std::uint64_t loads = 0, unloads = 0, dispatches = 0, hits = 0, misses = 0;
};

struct Ring {
    std::uint64_t occupied = 0, capacity = 0, wraps = 0, syncs = 0, programs = 0, time = 0;
};

// What one process holds on one device.
struct Account {
    std::uint64_t requested[KINDS] = {}, held[KINDS] = {}, count[KINDS] = {}, unreserved[KINDS] = {};
    std::uint64_t cb_demand = 0, cb_count = 0, cb_unplaced = 0, cb_resident = 0;
    std::uint64_t global_cbs = 0;  // not counted: the buffers below them are
    GridCoverage cb_cached, cb_dataflow;
    bool cb_map_full = false;
    // A program that is not running may have its circular buffers where L1 buffers are now; those bytes count once, as
    // buffers. Nothing is watched while all buffers were above all circular buffers.
    std::uint64_t lowest_l1 = UINT64_MAX, highest_cb = 0, watched_l1 = 0, watched_cost = 0;
    bool shared_unknown = false;  // watching would cost too much
    std::uint64_t footprint[KERNEL_TYPES] = {}, kernels[KERNEL_TYPES] = {};
    std::uint64_t dram_binaries = 0, unknown_binaries = 0, programs = 0;
    Counters counters;
    std::uint64_t cache_entries = 0;
    bool cache_seen = false, cache_entries_known = false;
    Ring ring;
    bool cb_placed() const { return !cb_unplaced && !cb_map_full; }
    std::uint64_t cb_used() const { return cb_placed() ? cb_cached.total() - cb_cached.shared() : cb_demand; }
};

struct Content {
    std::uint64_t kernels = 0, bytes = 0;
};

struct Device {
    std::uint64_t unplaced[KINDS] = {};  // buffers without address or reserved size
    LiveBlocks blocks[KINDS];            // of the others
    std::uint64_t held[KINDS] = {}, count[KINDS] = {}, peak[KINDS] = {}, peak_time[KINDS] = {};
    std::uint64_t cb_used = 0, cb_demand = 0, footprint = 0, l1_peak = 0, l1_peak_time = 0;
    std::uint32_t l1_banks = 0;  // 0: unknown
    Counters counters;  // since the ledger was created, including dead processes
    bool cache_seen = false;
    std::unordered_map<std::uint64_t, Content> contents;
    std::uint64_t distinct_bytes = 0, unknown_contents = 0;
    std::vector<Program*> residents;
    Program* last_dispatched = nullptr;
    std::uint64_t l1_used() const { return held[KIND_L1] + held[KIND_L1_SMALL] + cb_used; }
};

struct Process {
    bool open = false;
    bool follows_table = false;  // see follow_table
    std::uint8_t generation = 1;  // of the last resync; end_resync removes entries of older ones
    std::uint32_t owner = 0;
    std::uint64_t events = 0, live = 0;
    std::unordered_map<std::uint32_t, std::uint32_t> bound;  // logical id -> device
    std::unordered_map<std::uint32_t, std::shared_ptr<const CoreMask>> cores;
    std::map<std::uint32_t, std::unique_ptr<Account>> accounts;  // by device, in the order in which they are listed
    Chain<Buffer> buffers;
    Chain<CircularBuffer> circular_buffers;
    Chain<Kernel> kernels;
    Chain<Program> programs;
    RecentFrees freed;
};

struct Finding {
    FindingCode anomaly;
    std::uint32_t process, device;
    std::uint64_t times, bytes, last_id;
};

struct Rejection {
    Reject reason;
    std::uint32_t process;
    Event event;
};

// A journal or a saved state that no ledger can have written.
struct Malformed : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Changes of a replay, record by record: devices whose totals changed, buffers allocated and freed, anomalies.
class ReplayLog {
public:
    // The current totals of the devices are known.
    explicit ReplayLog(const std::vector<Device>& devices);
    // The next record has number `first`, as the caller counts.
    void count_from(std::uint64_t first) { first_ = first; }
    // What follows is caused by this record.
    void begin(std::size_t record, std::uint64_t time) { record_ = first_ + record, time_ = time; }
    void buffer(const Buffer& buffer, bool in);
    void finding(const FindingRow& row) { findings_.push_back(row); }
    // The record is done.
    void totals(const std::vector<Device>& devices);
    const std::vector<TotalsRow>& totals() const { return totals_; }
    const std::vector<BufferChangeRow>& buffers() const { return buffers_; }
    const std::vector<FindingRow>& findings() const { return findings_; }

private:
    std::uint64_t first_ = 0, record_ = 0, time_ = 0;
    std::vector<TotalsRow> known_, totals_;
    std::vector<BufferChangeRow> buffers_;
    std::vector<FindingRow> findings_;
};

class Ledger {
public:
    [[gnu::cold]] Ledger(std::uint64_t max_live, std::uint64_t max_steps, std::uint64_t seed);

    // The processes of one owner share half of the table, so that no owner can lock out the others; owner 0 has no
    // limit.
    [[gnu::cold]] std::uint32_t open_process(std::uint32_t owner = 0);
    std::uint32_t next_process() const;  // the index that open_process() would return
    // How many more entries the process may have.
    std::uint64_t room_for(const Process& process) const;
    [[gnu::cold]] void release_process(std::uint32_t process);

    // Returns memory to the system that a burst has left unused. Changes no account.
    [[gnu::cold]] void trim();
    std::uint32_t add_device();
    // Reuses the index for a new device. False: something is alive on it, or a process is bound to it and `unbind` is
    // not set.
    [[gnu::cold]] bool clear_device(std::uint32_t device, bool unbind);
    // As if nothing had ever happened on it; processes stay bound to it.
    [[gnu::cold]] void forget_device(std::uint32_t device);
    void bind(std::uint32_t process, std::uint32_t logical, std::uint32_t device);
    // False: the process has accounts on both devices, so they are different devices.
    bool move_account(std::uint32_t process, std::uint32_t old, std::uint32_t device, std::uint64_t now);
    void define_cores(std::uint32_t process, std::uint32_t id, const CoreMask& mask);
    // What this process holds was read from a table while it was running: the next events may repeat what the table
    // had, or free what it no longer had. Every id is used once, so repetitions are recognised; neither is an anomaly.
    void follow_table(std::uint32_t process);
    void begin_resync(std::uint32_t process);
    void end_resync(std::uint32_t process);
    void reset_peak(std::uint32_t device);
    // In how many banks an L1 buffer lies; 0: unknown.
    [[gnu::cold]] void set_l1_banks(std::uint32_t device, std::uint32_t banks);
    // The bytes of circular buffers that are cached inside the account's own L1 buffers; nothing if that is unknown.
    std::optional<std::uint64_t> shared(const Account& account, std::uint32_t device) const;

    // Applies events in order; stops before the first one whose logical device is not bound, and returns how many were
    // applied. If memory runs out (std::bad_alloc), the accounts are as they were before the event that needed it.
    // Auxiliary data is dropped instead: findings, remembered frees, the map of addresses, residency.
    std::size_t apply(std::uint32_t process, const Event* events, std::size_t count, std::uint64_t now);

    // Applies records of a journal (the control records of event.hpp, and the events between them). `taken` counts
    // them, even if Malformed or std::bad_alloc is thrown: everything before was applied. A batch may continue in the
    // next call; a DEFINE_CORES with an incomplete mask is not taken.
    void replay(const Event* records, std::size_t count, std::size_t& taken, ReplayLog* log = nullptr);

    // Everything that a query or a further event can depend on, except rejections that were not fetched
    // (ledger_state.cpp).
    std::string save() const;
    // Trusts nothing: every sum is calculated again. Malformed if the state is not one that save() writes.
    static std::unique_ptr<Ledger> restored(const char* data, std::size_t size, std::uint64_t seed);

    std::uint64_t seed() const { return seed_; }
    bool valid_process(std::uint32_t process) const { return process < processes_.size() && processes_[process].open; }
    bool valid_device(std::uint32_t device) const { return device < devices_.size(); }

    const std::vector<Process>& processes() const { return processes_; }
    const std::vector<Device>& devices() const { return devices_; }
    const std::vector<Finding>& findings() const { return findings_; }
    // The anomalies found since the last call, one bit each.
    std::uint32_t take_found() { return std::exchange(found_, 0); }
    std::vector<Rejection> take_rejections();
    // By the logical id of the device; kind < 0: any, the latest first.
    const Buffer* find_buffer(std::uint32_t process, std::uint32_t logical, int kind, std::uint64_t id) const;
    // The largest block that one allocation can still get, in bytes per bank; nothing if some addresses are unknown, or
    // they cannot belong to one allocator.
    std::optional<std::uint64_t> largest_free(std::uint32_t device, int kind, const Region& region);
    std::uint64_t rejected() const { return rejected_; }
    std::uint64_t dropped() const { return dropped_; }
    std::uint64_t live() const { return live_; }

private:
    struct Context {
        Process& process;
        std::uint32_t process_index;
        Account& account;
        Device& device;
        std::uint16_t device_index;
        std::uint64_t time;
    };

    void one(Context& at, const Event& event);
    void allocate(Context& at, const Event& event);
    void deallocate(Context& at, const Event& event);
    const Buffer* match_buffer(std::uint32_t process, std::uint32_t device, int kind, std::uint64_t id) const;
    void insert_buffer(Context& at, const BufferKey& key, const Event& event);
    void remove_buffer(Context& at, Buffer& buffer);
    void count_buffer(Context& at, const Buffer& buffer, bool in);
    void place_buffer(Device& device, const Buffer& buffer, bool in);
    [[gnu::cold]] void begin_blocks();
    void cb_allocate(Context& at, const Event& event);
    void insert_cb(Context& at, const Key& key, const Event& event, std::shared_ptr<const CoreMask> mask);
    void link_cb(Context& at, CircularBuffer& cb);
    void repeat_cb(Context& at, CircularBuffer& cb, const Event& event);
    CircularBuffer* find_cb(Context& at, const Event& event);
    void cb_deallocate(Context& at, const Event& event);
    void count_cb(Context& at, const CircularBuffer& cb, std::uint32_t times, bool in);
    void place_cb(Context& at, const CircularBuffer& cb, bool in);
    void remove_cb(Context& at, CircularBuffer& cb);
    void share_l1(Context& at, const Buffer& buffer, bool in);
    void watch(Context& at);
    [[gnu::cold]] void watch_anew(Context& at);
    [[gnu::cold]] void stop_watching(Account& account);
    void count_watched(Account& account);
    void kernel_load(Context& at, const Event& event);
    void kernel_unload(Context& at, const Event& event);
    void remove_kernel(Context& at, Kernel& kernel);
    void count_kernel(Context& at, const Kernel& kernel, bool in);
    void count_binary(Context& at, const Kernel& kernel, bool in);
    void dispatch(Context& at, const Event& event);
    void count_dispatch(Context& at, Program* program, const Event& event);
    void set_resident(Context& at, Program& program, const CoreMask& cores);
    void evict(Context& at, const Program& program, const CoreMask& cores);
    static void lay_out(Program& program);
    void weigh_resident(Context& at, Program& program);
    void clear_resident(Context& at, Program& program);
    void destroy_program(Context& at, const Event& event);
    void set_status(Context& at, const Event& event);
    void name_program(Context& at, const Event& event);
    void set_ring(Context& at, const Event& event);
    void set_counters(Context& at, const Event& event);
    void set_cache_entries(Context& at, const Event& event);

    Program* program_for(Context& at, std::uint64_t id);
    void drop_program(Context& at, Program& program);
    void drop_program_if_empty(Context& at, Program& program);
    bool has_space(Context& at, std::uint64_t bytes, std::uint64_t id, std::uint64_t entries = 1);
    void give_back(Context& at, std::uint64_t entries);
    void reject(Context& at, Reject reason, const Event& event);
    void report(Context& at, FindingCode anomaly, std::uint64_t bytes, std::uint64_t id);
    void report_unmatched(Context& at, bool freed, FindingCode twice, FindingCode unknown, const Event& event);
    void forget_freed_buffer(Context& at, const Event& event);
    bool was_buffer_freed(Context& at, const Event& event);
    void raise_peaks(Context& at);
    template <typename Which>
    void forget_findings(Which which);
    void index_findings() noexcept;
    Context context(std::uint32_t process, std::uint32_t device, std::uint64_t time);
    Account& account_of(Process& process, std::uint32_t device);
    template <typename Which>
    void sweep(std::uint32_t process, Which which);
    void control(const Event& record);

    friend class Saver;
    friend class Restorer;

    // The batch of a journal that is being replayed.
    struct Batch {
        std::uint32_t process = 0;
        std::uint64_t now = 0, left = 0;
    };

    std::uint64_t max_live_, max_steps_, seed_;
    std::vector<std::uint64_t> owned_{0};  // live entries, by owner
    std::uint64_t live_ = 0, steps_ = 0, watched_cost_ = 0, order_ = 0, rejected_ = 0, dropped_ = 0;
    Table<Buffer, BufferKey, KeyHash> buffers_;
    Table<CircularBuffer, Key, KeyHash> circular_buffers_;
    Table<SameId, Key, KeyHash> same_id_;
    Table<Kernel, Key, KeyHash> kernels_;
    Table<Program, Key, KeyHash> programs_;
    std::vector<Process> processes_;
    std::vector<Device> devices_;
    std::vector<Finding> findings_;
    std::uint32_t found_ = 0;
    std::unordered_map<std::uint64_t, std::size_t> finding_index_;
    std::vector<Rejection> rejections_;
    Batch batch_;
    ReplayLog* log_ = nullptr;  // while a replay is logged
};

}  // namespace ttmem
