// The whole state as bytes, and the journal that leads from one state to the next.
//
// A saved state, little-endian, without padding between its parts:
//
//   SavedLedger
//   CoreMask            x masks         128 bytes each; parts below name them by number from 1 on, 0 is 'none' or 'empty'
//   per device          SavedDevice, then SavedContent x contents
//   per process         SavedProcess, then
//     SavedPair         x bound         logical id, device
//     SavedPair         x cores         id of the core set, mask
//     per account       SavedAccount, then SavedClass with its SavedRanges, x cached_classes + dataflow_classes
//     per program       SavedProgram, then SavedPart x parts
//     SavedCb           x circular_buffers
//     SavedKernel       x kernels
//     SavedBuffer       x buffers
//     SavedFree         x frees
//   SavedResident       x residents, of each device in turn
//   SavedFinding        x findings
//
// Entries of a process are in the order in which they were created. Sums are not saved, so a state written by somebody
// else cannot have sums that disagree with its entries. Unused bytes are 0.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>

// States are saved and restored rarely; events that are replayed go through the rest of the ledger. Small code is preferred.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Os")
#endif

#include "ledger.hpp"

namespace ttmem {

namespace {

constexpr char MAGIC[8] = {'t', 't', 'm', 'e', 'm', 'l', 'e', 'd'};
constexpr std::uint32_t STATE_VERSION = 1;
using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

struct SavedLedger {
    char magic[8];
    u32 version, masks, devices, processes, findings, batch_process;
    u64 batch_now, batch_left, max_live, max_steps, order, rejected, dropped;
};
struct SavedDevice {
    u64 peak[KINDS], peak_time[KINDS], l1_peak, l1_peak_time;
    Counters counters;
    u32 contents, residents, last_dispatched;  // last_dispatched: number among the residents, from 1 on
    u16 cache_seen, l1_banks;                  // banks: 0 if unknown
};
struct SavedContent {
    u64 content, bytes;
};
struct SavedProcess {
    u64 events;
    u32 owner, bound, cores, accounts, programs, circular_buffers, kernels, buffers, frees;
    u8 open, follows_table, generation, unused;
};
struct SavedPair {
    u32 from, to;
};
struct SavedAccount {
    Counters counters;
    Ring ring;
    u64 cache_entries;
    u32 device, cached_classes, dataflow_classes;
    u8 map_full, cache_seen, cache_entries_known, shared_unknown;
};
struct SavedRange {
    u64 start, end;
};
struct SavedClass {
    SavedRange run;
    u32 cores, waiting;
};
struct SavedProgram {
    u64 id, dispatches, hits, misses, last_dispatch, runs;
    u32 cores, resident, parts, name, site, last_site;
    u16 device;
    u8 status, status_known, had_kernels, stale, generation, unused;
};
struct SavedPart {  // of a footprint that is stale: what the program was dispatched with cannot be derived
    u64 per_core;
    u32 cores, unused;
};
struct SavedCb {
    u64 id, second, size, address, time, program;
    u32 references, cores, mask;
    u16 device;
    u8 flags, generation;
};
struct SavedKernel {
    u64 id, binary, footprint, content, time, loads, repeats, runs_before, program;
    u32 cores, name, site;
    u16 device;
    u8 type, generation;
};
struct SavedBuffer {
    u64 id, size, reserved, address, time, order;
    u32 references, name, site, phase;
    u16 device;
    u8 kind, generation;
    u32 unused;
};
struct SavedFree {
    u64 id, second;
    u16 device, kind;
    u8 what, freed, unused[2];
};
struct SavedResident {
    u64 program;
    u32 process, unused;
};
struct SavedFinding {
    u64 times, bytes, last_id;
    u32 anomaly, process, device, unused;
};
static_assert(sizeof(SavedLedger) == 88 && sizeof(SavedDevice) == 152 && sizeof(SavedProcess) == 48, "no padding");
static_assert(sizeof(SavedAccount) == 112 && sizeof(SavedClass) == 24 && sizeof(SavedProgram) == 80, "no padding");
static_assert(sizeof(SavedCb) == 64 && sizeof(SavedKernel) == 88 && sizeof(SavedBuffer) == 72, "no padding");
static_assert(sizeof(SavedFree) == 24 && sizeof(SavedFinding) == 40 && sizeof(CoreMask) == 128, "no padding");

u32 number(std::size_t value) { return static_cast<u32>(value); }

void check(bool holds, const char* what) {
    if (!holds) {
        throw Malformed(what);
    }
}

template <typename T>
std::vector<const T*> oldest_first(const Chain<T>& chain) {
    std::vector<const T*> out;
    for (const T* item = chain.head; item; item = item->next) {
        out.push_back(item);
    }
    std::reverse(out.begin(), out.end());
    return out;
}

// The keys: a state is the same to the byte wherever it is saved.
template <typename Key, typename T>
std::vector<Key> sorted(const std::unordered_map<Key, T>& map) {
    std::vector<Key> out;
    for (const auto& each : map) {
        out.push_back(each.first);
    }
    std::sort(out.begin(), out.end());
    return out;
}

struct MaskHash {
    std::size_t operator()(const CoreMask& mask) const {
        u64 hash = 0;
        for (const u64 word : mask.words) {
            hash = mix(hash ^ word);
        }
        return hash;
    }
};

}  // namespace

class Saver {
public:
    explicit Saver(const Ledger& ledger) : ledger_(ledger) {}

    std::string save() {
        for (const Device& device : ledger_.devices_) {
            save_device(device);
        }
        for (const Process& process : ledger_.processes_) {
            save_process(process);
        }
        for (const Device& device : ledger_.devices_) {
            for (const Program* program : device.residents) {
                put(SavedResident{program->key.id, program->key.process, 0});
            }
        }
        for (const Finding& f : ledger_.findings_) {
            put(SavedFinding{f.times, f.bytes, f.last_id, static_cast<u32>(f.anomaly), f.process, f.device, 0});
        }
        SavedLedger header{{}, STATE_VERSION, number(masks_.size()), number(ledger_.devices_.size()),
                           number(ledger_.processes_.size()), number(ledger_.findings_.size()), ledger_.batch_.process,
                           ledger_.batch_.now, ledger_.batch_.left, ledger_.max_live_, ledger_.max_steps_,
                           ledger_.order_, ledger_.rejected_, ledger_.dropped_};
        std::copy(std::begin(MAGIC), std::end(MAGIC), header.magic);
        std::string out(reinterpret_cast<const char*>(&header), sizeof header);
        out.reserve(out.size() + masks_.size() * sizeof(CoreMask) + body_.size());
        for (const CoreMask& mask : masks_) {
            out.append(reinterpret_cast<const char*>(mask.words.data()), sizeof mask.words);
        }
        return out += body_;
    }

private:
    template <typename T>
    void put(const T& value) {
        body_.append(reinterpret_cast<const char*>(&value), sizeof value);
    }

    u32 mask(const CoreMask& cores) {
        if (cores.empty()) {
            return 0;
        }
        const auto [found, fresh] = mask_numbers_.try_emplace(cores, number(masks_.size() + 1));
        if (fresh) {
            masks_.push_back(cores);
        }
        return found->second;
    }

    void save_device(const Device& device) {
        SavedDevice saved{{}, {}, device.l1_peak, device.l1_peak_time, device.counters, number(device.contents.size()),
                          number(device.residents.size()), 0, device.cache_seen, static_cast<u16>(device.l1_banks)};
        std::copy(std::begin(device.peak), std::end(device.peak), saved.peak);
        std::copy(std::begin(device.peak_time), std::end(device.peak_time), saved.peak_time);
        const auto last = std::find(device.residents.begin(), device.residents.end(), device.last_dispatched);
        if (last != device.residents.end()) {
            saved.last_dispatched = number(last - device.residents.begin() + 1);
        }
        put(saved);
        for (const u64 content : sorted(device.contents)) {
            put(SavedContent{content, device.contents.at(content).bytes});
        }
    }

    void save_process(const Process& process) {
        const auto programs = oldest_first(process.programs);
        const auto circular_buffers = oldest_first(process.circular_buffers);
        const auto kernels = oldest_first(process.kernels);
        const auto buffers = oldest_first(process.buffers);
        const auto frees = process.freed.entries();
        put(SavedProcess{process.events, process.owner, number(process.bound.size()), number(process.cores.size()),
                         number(process.accounts.size()), number(programs.size()), number(circular_buffers.size()),
                         number(kernels.size()), number(buffers.size()), number(frees.size()), process.open,
                         process.follows_table, process.generation, 0});
        for (const u32 logical : sorted(process.bound)) {
            put(SavedPair{logical, process.bound.at(logical)});
        }
        for (const u32 id : sorted(process.cores)) {
            put(SavedPair{id, mask(*process.cores.at(id))});
        }
        for (const auto& [device, account] : process.accounts) {
            save_account(device, *account);
        }
        for (const Program* program : programs) {
            save_program(*program);
        }
        for (const CircularBuffer* cb : circular_buffers) {
            put(SavedCb{cb->key.id, cb->key.second, cb->size, cb->address, cb->time, cb->program ? cb->program->key.id : 0,
                        cb->references, cb->cores, cb->mask ? mask(*cb->mask) : 0, cb->key.device,
                        static_cast<u8>(cb->flags), cb->generation});
        }
        for (const Kernel* k : kernels) {
            put(SavedKernel{k->key.id, k->binary, k->footprint, k->content, k->time, k->loads, k->repeats, k->runs_before,
                            k->program ? k->program->key.id : 0, k->cores, k->name, k->site, k->key.device, k->type,
                            k->generation});
        }
        body_.reserve(body_.size() + buffers.size() * sizeof(SavedBuffer));
        for (const Buffer* b : buffers) {
            put(SavedBuffer{b->key.id, b->size, b->reserved, b->address, b->time, b->order(),
                            static_cast<u32>(b->references), b->name, b->site, b->phase, b->key.device,
                            static_cast<u8>(b->key.kind), static_cast<u8>(b->generation), 0});
        }
        for (const auto& [name, freed] : frees) {
            put(SavedFree{name.id, name.second, name.device, name.kind, static_cast<u8>(name.what), freed, {}});
        }
    }

    void save_account(u32 device, const Account& a) {
        const auto &cached = a.cb_cached.classes(), &dataflow = a.cb_dataflow.classes();
        put(SavedAccount{a.counters, a.ring, a.cache_entries, device, number(cached.size()), number(dataflow.size()),
                         a.cb_map_full, a.cache_seen, a.cache_entries_known, a.shared_unknown});
        for (const auto* classes : {&cached, &dataflow}) {
            for (const GridCoverage::Class& part : *classes) {
                const auto& [start, end] = part.coverage.run();
                put(SavedClass{{start, end}, mask(part.cores), number(part.coverage.waiting().size())});
                for (const auto& [from, to] : part.coverage.waiting()) {
                    put(SavedRange{from, to});
                }
            }
        }
    }

    void save_program(const Program& p) {
        const std::size_t parts = p.footprint_stale ? p.footprint.size() : 0;
        put(SavedProgram{p.key.id, p.dispatches, p.hits, p.misses, p.last_dispatch, p.runs, mask(p.cores),
                         mask(p.resident), number(parts), p.name, p.site, p.last_site, p.key.device, p.status,
                         p.status_known, p.had_kernels, p.footprint_stale, p.generation, 0});
        for (std::size_t i = 0; i < parts; ++i) {
            put(SavedPart{p.footprint[i].second, mask(p.footprint[i].first), 0});
        }
    }

    const Ledger& ledger_;
    std::string body_;
    std::vector<CoreMask> masks_;
    std::unordered_map<CoreMask, u32, MaskHash> mask_numbers_;
};

class Restorer {
public:
    Restorer(const char* data, std::size_t size, std::uint64_t seed) : at_(data), end_(data + size), seed_(seed) {}

    std::unique_ptr<Ledger> restore() {
        const auto header = get<SavedLedger>();
        check(std::equal(std::begin(MAGIC), std::end(MAGIC), header.magic), "this is no state of a ledger");
        check(header.version == STATE_VERSION, "its version is unknown");
        check(header.max_live <= MAX_LIVE && header.max_steps <= MAX_STEPS, "its limits are too high");
        check(header.order < 1ull << 47, "it has had more buffers than there can be");
        check(header.devices <= MAX_DEVICES && header.processes <= MAX_PROCESSES, "it has too many devices or processes");
        made_ = std::make_unique<Ledger>(header.max_live, header.max_steps, seed_);
        made_->order_ = header.order, made_->rejected_ = header.rejected, made_->dropped_ = header.dropped;
        expect<CoreMask>(header.masks);
        masks_.reserve(header.masks);
        for (u32 i = 0; i < header.masks; ++i) {
            masks_.push_back(std::make_shared<const CoreMask>(get<CoreMask>()));
            check(!masks_.back()->empty(), "a mask has no cores");
        }
        expect<SavedDevice>(header.devices);
        made_->devices_.resize(header.devices);
        for (u32 i = 0; i < header.devices; ++i) {
            restore_device();
        }
        expect<SavedProcess>(header.processes);
        made_->processes_.resize(header.processes);
        for (u32 i = 0; i < header.processes; ++i) {
            restore_process(i);
        }
        for (u32 i = 0; i < header.devices; ++i) {
            restore_residents(i);
            finish_device(i);
        }
        restore_findings(header.findings);
        check(at_ == end_, "there is something behind its end");
        check(!header.batch_left || made_->valid_process(header.batch_process), "its batch is of no process");
        made_->batch_ = Ledger::Batch{header.batch_process, header.batch_now, header.batch_left};
        return std::move(made_);
    }

private:
    template <typename T>
    T get() {
        check(static_cast<std::size_t>(end_ - at_) >= sizeof(T), "it is cut short");
        T value;
        std::memcpy(static_cast<void*>(&value), at_, sizeof value);
        at_ += sizeof value;
        return value;
    }

    // Memory is allocated only for data that is present.
    template <typename T>
    void expect(std::size_t count) const {
        check(static_cast<std::size_t>(end_ - at_) / sizeof(T) >= count, "it is cut short");
    }

    std::shared_ptr<const CoreMask> mask(u32 number) const {
        check(number <= masks_.size(), "it has no such mask");
        return number ? masks_[number - 1] : nullptr;
    }

    CoreMask cores(u32 number) const {
        const auto found = mask(number);
        return found ? *found : CoreMask{};
    }

    void restore_device() {
        const auto saved = get<SavedDevice>();
        expect<SavedContent>(saved.contents);
        std::vector<SavedContent> contents;
        for (u32 i = 0; i < saved.contents; ++i) {
            contents.push_back(get<SavedContent>());
            check(contents.back().bytes <= MAX_BYTES, "a kernel is too large");
        }
        made_->devices_[devices_.size()].l1_banks = saved.l1_banks;
        devices_.push_back(saved);
        contents_.push_back(std::move(contents));
    }

    void restore_process(u32 index) {
        const auto saved = get<SavedProcess>();
        Process& process = made_->processes_[index];
        check(saved.owner <= MAX_OWNERS, "an owner has no such number");
        check(saved.frees <= RecentFrees::LIMIT, "it remembers too many frees");
        check(saved.open || !(saved.bound | saved.cores | saved.accounts | saved.programs | saved.circular_buffers |
                              saved.kernels | saved.buffers | saved.frees),
              "a process that is not open has something");
        made_->owned_.resize(std::max<std::size_t>(made_->owned_.size(), saved.owner + 1));
        process.open = saved.open, process.follows_table = saved.follows_table;
        process.generation = saved.generation, process.owner = saved.owner, process.events = saved.events;
        for (u32 i = 0; i < saved.bound; ++i) {
            const auto pair = get<SavedPair>();
            check(made_->valid_device(pair.to), "a number is bound to no device");
            check(process.bound.emplace(pair.from, pair.to).second, "a number is bound twice");
        }
        for (u32 i = 0; i < saved.cores; ++i) {
            const auto pair = get<SavedPair>();
            auto cores = mask(pair.to);
            cores = cores ? cores : std::make_shared<const CoreMask>();
            check(process.cores.emplace(pair.from, std::move(cores)).second, "a core set is there twice");
        }
        for (u32 i = 0; i < saved.accounts; ++i) {
            restore_account(process);
        }
        expect<SavedProgram>(saved.programs);
        std::vector<Program*> laid_out;
        for (u32 i = 0; i < saved.programs; ++i) {
            restore_program(index, laid_out);
        }
        for (u32 i = 0; i < saved.circular_buffers; ++i) {
            restore_cb(index);
        }
        for (u32 i = 0; i < saved.kernels; ++i) {
            restore_kernel(index);
        }
        u64 order = 0;
        for (u32 i = 0; i < saved.buffers; ++i) {
            restore_buffer(index, order);
        }
        for (u32 i = 0; i < saved.frees; ++i) {
            restore_free(process);
        }
        for (Program* program : laid_out) {
            Ledger::lay_out(*program);
            if (program->footprint_stale) {
                throw std::bad_alloc();
            }
        }
        for (const auto& [device, account] : process.accounts) {
            const bool same = account->cb_cached.finish() && account->cb_dataflow.finish();
            check(same, "a map of addresses is not that of its circular buffers");
            check(!account->cb_map_full || account->cb_count, "a map of nothing is full");
        }
        for (const CircularBuffer* cb = process.circular_buffers.head; cb; cb = cb->next) {
            if (cb->mask && cb->counted()) {
                Account& account = *process.accounts.at(cb->key.device);
                account.highest_cb = std::max(account.highest_cb, cb->address + cb->per_core);
            }
        }
        for (const auto& each : process.accounts) {
            Ledger::Context at = context(index, each.first);
            made_->watch(at);
        }
    }

    void restore_account(Process& process) {
        const auto saved = get<SavedAccount>();
        check(made_->valid_device(saved.device), "an account is on no device");
        check(process.accounts.count(saved.device) == 0, "an account is there twice");
        Account& account = made_->account_of(process, saved.device);
        account.counters = saved.counters, account.ring = saved.ring;
        account.cache_entries = saved.cache_entries, account.cache_entries_known = saved.cache_entries_known;
        account.cache_seen = saved.cache_seen, account.cb_map_full = saved.map_full;
        account.shared_unknown = saved.shared_unknown;
        check(!saved.map_full || !(saved.cached_classes | saved.dataflow_classes), "a full map has ranges");
        restore_classes(account.cb_cached, saved.cached_classes);
        restore_classes(account.cb_dataflow, saved.dataflow_classes);
    }

    void restore_classes(GridCoverage& map, u32 count) {
        for (u32 i = 0; i < count; ++i) {
            const auto saved = get<SavedClass>();
            check(saved.waiting < Coverage::MAX_WAITING, "too many ranges wait");
            std::vector<Coverage::Range> waiting;
            for (u32 j = 0; j < saved.waiting; ++j) {
                const auto range = get<SavedRange>();
                waiting.emplace_back(range.start, range.end);
            }
            Coverage coverage;
            coverage.expect({saved.run.start, saved.run.end}, std::move(waiting));
            made_->steps_ += coverage.steps();
            check(map.expect(cores(saved.cores), std::move(coverage)), "a core is in two classes, or in none");
        }
    }

    Ledger::Context context(u32 process, u32 device) {
        check(made_->valid_device(device), "something is on no device");
        check(made_->processes_[process].accounts.count(device), "something is in no account");
        return made_->context(process, device, 0);
    }

    void take_room(Ledger::Context& at, u64 entries) {
        check(entries <= made_->room_for(at.process), "it has more entries than it may have");
        made_->has_space(at, 0, 0, entries);
    }

    Program* program(const Key& key) {
        Program* found = key.id ? made_->programs_.find(key) : nullptr;
        check(found || !key.id, "a program is missing");
        return found;
    }

    void restore_program(u32 index, std::vector<Program*>& laid_out) {
        const auto saved = get<SavedProgram>();
        Ledger::Context at = context(index, saved.device);
        const Key key{saved.id, 0, index, saved.device, 0};
        check(saved.id && !made_->programs_.find(key), "a program has no id, or is there twice");
        check(saved.status <= 2, "a program has no such status");
        take_room(at, 1);
        Program& p = made_->programs_.insert(key);
        at.process.programs.push(p);
        ++at.account.programs;
        p.dispatches = saved.dispatches, p.hits = saved.hits, p.misses = saved.misses, p.runs = saved.runs;
        p.last_dispatch = saved.last_dispatch, p.cores = cores(saved.cores), p.resident = cores(saved.resident);
        p.had_kernels = saved.had_kernels, p.status = saved.status, p.status_known = saved.status_known;
        p.name = saved.name, p.site = saved.site, p.last_site = saved.last_site, p.generation = saved.generation;
        expect<SavedPart>(saved.parts);
        check(saved.stale || !saved.parts, "a footprint that can be derived is there");
        CoreMask all;
        for (u32 i = 0; i < saved.parts; ++i) {
            const auto part = get<SavedPart>();
            const CoreMask mine = cores(part.cores);
            check(!mine.empty() && (mine & all).empty(), "a core has two footprints, or a footprint has no core");
            all = all | mine;
            p.footprint.emplace_back(mine, part.per_core);
        }
        if (!saved.stale) {
            laid_out.push_back(&p);
        }
    }

    void restore_cb(u32 index) {
        const auto saved = get<SavedCb>();
        Ledger::Context at = context(index, saved.device);
        const Key key{saved.id, saved.second, index, saved.device, saved.flags};
        check(!(saved.flags & ~(GLOBAL | DATAFLOW)), "a circular buffer has unknown flags");
        check(saved.size && saved.size <= MAX_BYTES, "a circular buffer has an impossible size");
        check(saved.references && saved.references <= MAX_REFERENCES, "a circular buffer has impossible references");
        check(!made_->circular_buffers_.find(key), "a circular buffer is there twice");
        auto cores = mask(saved.mask);
        check(!cores || saved.size % static_cast<u64>(cores->count()) == 0, "a circular buffer is not the same on its cores");
        take_room(at, saved.references);
        CircularBuffer& cb = made_->circular_buffers_.insert(key);
        cb.size = saved.size, cb.per_core = cores ? saved.size / static_cast<u64>(cores->count()) : saved.size;
        cb.address = saved.address, cb.time = saved.time, cb.references = saved.references, cb.cores = saved.cores;
        cb.flags = saved.flags, cb.generation = saved.generation, cb.mask = std::move(cores);
        cb.program = program(Key{saved.program, 0, index, saved.device, 0});
        made_->link_cb(at, cb);
        made_->count_cb(at, cb, cb.references, true);
        place(at.account, cb);
    }

    void place(Account& account, const CircularBuffer& cb) {
        if (!cb.mask || !cb.counted() || account.cb_map_full) {
            return;
        }
        const auto put = [&](GridCoverage& map) {
            const std::size_t before = map.steps();
            check(map.put(*cb.mask, cb.address, cb.address + cb.per_core), "a class of cores has different ranges");
            made_->steps_ += map.steps() - before;
            check(made_->steps_ <= made_->max_steps_, "its maps of addresses are too large");
        };
        put(account.cb_cached);
        if (cb.flags & DATAFLOW) {
            put(account.cb_dataflow);
        }
    }

    void restore_kernel(u32 index) {
        const auto saved = get<SavedKernel>();
        Ledger::Context at = context(index, saved.device);
        const Key key{saved.id, 0, index, saved.device, 0};
        check(!made_->kernels_.find(key), "a kernel is there twice");
        check(saved.type < KERNEL_TYPES, "a kernel has an unknown type");
        check(saved.footprint && saved.footprint <= MAX_BYTES, "a kernel has an impossible size");
        const bool whole = saved.cores == 0;
        check(whole ? saved.binary == 0 : saved.binary == saved.footprint / saved.cores && saved.footprint % saved.cores == 0,
              "a kernel's footprint is not binary x cores");
        Program* of = program(Key{saved.program, 0, index, saved.device, 0});
        check(saved.runs_before <= (of ? of->runs : 0), "a kernel was loaded after its program's last run");
        take_room(at, 1);
        Kernel& k = made_->kernels_.insert(key);
        k.binary = saved.binary, k.footprint = saved.footprint, k.content = saved.content, k.time = saved.time;
        k.loads = saved.loads, k.repeats = saved.repeats, k.runs_before = saved.runs_before, k.cores = saved.cores;
        k.name = saved.name, k.site = saved.site, k.type = saved.type, k.generation = saved.generation;
        k.binary_known = !whole;
        k.program = of;
        at.process.kernels.push(k);
        if (of) {
            link_into(of->kernels, k, &Kernel::program_previous, &Kernel::program_next);
        }
        made_->count_kernel(at, k, true);
    }

    void restore_buffer(u32 index, u64& order) {
        const auto saved = get<SavedBuffer>();
        Ledger::Context at = context(index, saved.device);
        const BufferKey key{saved.id, index, saved.device, saved.kind};
        check(saved.kind < KINDS, "a buffer has an unknown kind");
        check(saved.size && saved.size <= MAX_BYTES && saved.reserved <= MAX_BYTES, "a buffer has an impossible size");
        check(saved.references && saved.references <= MAX_REFERENCES, "a buffer has impossible references");
        check(order < saved.order && saved.order <= made_->order_, "a buffer is not in its place");
        check(!made_->buffers_.find(key), "a buffer is there twice");
        take_room(at, 1);
        order = saved.order;
        Buffer& b = made_->buffers_.insert(key);
        b.size = saved.size, b.reserved = saved.reserved, b.address = saved.address, b.time = saved.time;
        b.set_order(saved.order);
        b.references = saved.references, b.name = saved.name, b.site = saved.site, b.phase = saved.phase;
        b.generation = saved.generation;
        at.process.buffers.push(b);
        made_->count_buffer(at, b, true);
    }

    void restore_free(Process& process) {
        const auto saved = get<SavedFree>();
        check(saved.what <= static_cast<u8>(RecentFrees::What::PROGRAM), "something unknown was freed");
        process.freed.add({{saved.id, saved.second, saved.device, saved.kind, static_cast<RecentFrees::What>(saved.what)},
                           saved.freed != 0});
    }

    void restore_residents(u32 index) {
        Device& device = made_->devices_[index];
        const SavedDevice& saved = devices_[index];
        expect<SavedResident>(saved.residents);
        CoreMask taken;
        for (u32 i = 0; i < saved.residents; ++i) {
            const auto resident = get<SavedResident>();
            check(made_->valid_process(resident.process), "a resident program is of no process");
            Ledger::Context at = context(resident.process, index);
            Program* found = program(Key{resident.program, 0, resident.process, static_cast<u16>(index), 0});
            check(found && !found->resident.empty(), "a resident program is on no core");
            check((found->resident & taken).empty(), "two programs are resident on one core");
            taken = taken | found->resident;
            device.residents.push_back(found);
            made_->weigh_resident(at, *found);
        }
        check(saved.last_dispatched <= saved.residents, "the program that was dispatched last is not resident");
        device.last_dispatched = saved.last_dispatched ? device.residents[saved.last_dispatched - 1] : nullptr;
    }

    void finish_device(u32 index) {
        Device& device = made_->devices_[index];
        const SavedDevice& saved = devices_[index];
        std::size_t resident = 0;
        Counters sum;
        device.cb_used = 0;  // it was counted while the maps were incomplete
        for (const Process& process : made_->processes_) {
            for (const Program* p = process.programs.head; p; p = p->next) {
                resident += p->key.device == index && !p->resident.empty();
            }
            if (const auto found = process.accounts.find(index); found != process.accounts.end()) {
                const Counters& mine = found->second->counters;
                device.cb_used += found->second->cb_used();
                sum.loads += mine.loads, sum.unloads += mine.unloads, sum.dispatches += mine.dispatches;
                sum.hits += mine.hits, sum.misses += mine.misses;
            }
        }
        check(resident == saved.residents, "a program is on cores, and not among the residents");
        const Counters& all = saved.counters;
        check(sum.loads <= all.loads && sum.unloads <= all.unloads && sum.dispatches <= all.dispatches &&
                  sum.hits <= all.hits && sum.misses <= all.misses,
              "a device has counted less than its processes");
        check(contents_[index].size() == device.contents.size(), "its kernels have other contents");
        for (const SavedContent& each : contents_[index]) {
            const auto found = device.contents.find(each.content);
            check(found != device.contents.end(), "no kernel has this content");
            device.distinct_bytes += each.bytes - found->second.bytes;
            found->second.bytes = each.bytes;
        }
        device.counters = saved.counters, device.cache_seen = saved.cache_seen;
        for (int kind = 0; kind < KINDS; ++kind) {
            check(device.held[kind] <= saved.peak[kind], "more is held than ever was");
            device.peak[kind] = saved.peak[kind], device.peak_time[kind] = saved.peak_time[kind];
        }
        check(device.l1_used() <= saved.l1_peak, "more L1 is used than ever was");
        device.l1_peak = saved.l1_peak, device.l1_peak_time = saved.l1_peak_time;
    }

    void restore_findings(u32 count) {
        expect<SavedFinding>(count);
        check(count <= MAX_FINDINGS, "it has too many findings");
        for (u32 i = 0; i < count; ++i) {
            const auto saved = get<SavedFinding>();
            check(saved.anomaly && saved.anomaly <= FINDING_CODES, "a finding is of no sort");
            check(made_->valid_process(saved.process), "a finding is of no process");
            check(made_->valid_device(saved.device), "a finding is on no device");
            made_->findings_.push_back(Finding{static_cast<FindingCode>(saved.anomaly), saved.process, saved.device,
                                               saved.times, saved.bytes, saved.last_id});
        }
        made_->index_findings();
    }

    const char *at_, *end_;
    std::uint64_t seed_;
    std::unique_ptr<Ledger> made_;
    std::vector<std::shared_ptr<const CoreMask>> masks_;
    std::vector<SavedDevice> devices_;
    std::vector<std::vector<SavedContent>> contents_;
};

std::string Ledger::save() const { return Saver(*this).save(); }

std::unique_ptr<Ledger> Ledger::restored(const char* data, std::size_t size, std::uint64_t seed) {
    return Restorer(data, size, seed).restore();
}

void Ledger::replay(const Event* records, std::size_t count, std::size_t& taken, ReplayLog* log) {
    struct Logged {
        Ledger& ledger;
        Logged(Ledger& of, ReplayLog* log) : ledger(of) { of.log_ = log; }
        ~Logged() { ledger.log_ = nullptr; }
    } logged(*this, log);
    while (taken < count) {
        const Event& record = records[taken];
        if (batch_.left && record.op == BLANK) {
            ++taken, --batch_.left;
            batch_ = batch_.left ? batch_ : Batch{};
        } else if (batch_.left) {
            const std::size_t most = std::min<std::uint64_t>(batch_.left, count - taken);
            const auto blank = [](const Event& event) { return event.op == BLANK; };
            const Event* end = std::find_if(&record, &record + most, blank);
            const std::size_t here = log ? 1 : static_cast<std::size_t>(end - &record);
            if (log) {
                const bool known = record.time && record.time <= batch_.now;
                log->begin(taken, known ? record.time : batch_.now);
            }
            const std::size_t applied = apply(batch_.process, &record, here, batch_.now);
            if (log && applied) {
                log->totals(devices_);
            }
            taken += applied, batch_.left -= applied;
            batch_ = batch_.left ? batch_ : Batch{};
            check(applied == here, "an event on a device that is not bound");
        } else if (record.op == DEFINE_CORES) {
            check(valid_process(record.device), "no such process is open");
            CoreMask mask;
            if (count - taken < 1 + sizeof mask / sizeof(Event)) {
                return;
            }
            std::memcpy(mask.words.data(), static_cast<const void*>(&record + 1), sizeof mask.words);
            define_cores(record.device, record.number, mask);
            taken += 1 + sizeof mask / sizeof(Event);
        } else {
            if (log) {
                log->begin(taken, record.time);
            }
            control(record);
            if (log) {
                log->totals(devices_);
            }
            ++taken;
        }
    }
}

namespace {

TotalsRow totals_of(const Device& device, std::size_t index) {
    return {0, 0, index, device.held[0], device.held[KIND_L1], device.held[KIND_L1_SMALL], device.held[4], device.cb_used};
}

bool same_totals(const TotalsRow& a, const TotalsRow& b) {
    return a.dram == b.dram && a.l1 == b.l1 && a.l1_small == b.l1_small && a.trace == b.trace && a.cb == b.cb;
}

}  // namespace

ReplayLog::ReplayLog(const std::vector<Device>& devices) {
    for (std::size_t index = 0; index < devices.size(); ++index) {
        known_.push_back(totals_of(devices[index], index));
    }
}

void ReplayLog::buffer(const Buffer& b, bool in) {
    buffers_.push_back({record_, time_, in, b.key.process, b.key.device, b.key.kind, b.key.id, b.size, b.reserved,
                        b.address, b.time, b.name, b.site, b.phase});
}

void ReplayLog::totals(const std::vector<Device>& devices) {
    for (std::size_t index = 0; index < devices.size(); ++index) {
        if (index == known_.size()) {
            known_.push_back(TotalsRow{0, 0, index, 0, 0, 0, 0, 0});
        }
        const TotalsRow now = totals_of(devices[index], index);
        if (!same_totals(now, known_[index])) {
            known_[index] = now;
            totals_.push_back(now);
            totals_.back().record = record_;
            totals_.back().time = time_;
        }
    }
}

void Ledger::control(const Event& record) {
    const auto process = [&] {
        check(valid_process(record.device), "no such process is open");
        return record.device;
    };
    const auto device = [&](std::uint32_t index) {
        check(valid_device(index), "there is no such device");
        return index;
    };
    switch (record.op) {
        case BATCH:
            process();
            batch_ = record.size ? Batch{record.device, record.time, record.size} : Batch{};
            return;
        case OPEN_PROCESS:
            check(record.number <= MAX_OWNERS && record.device < MAX_PROCESSES, "there cannot be such a process");
            check(record.device == next_process(), "this process is not the next one");
            open_process(record.number);
            return;
        case RELEASE_PROCESS: return release_process(process());
        case ADD_DEVICE:
            check(record.number == devices_.size() && record.number < MAX_DEVICES, "this device is not the next one");
            add_device();
            return;
        case CLEAR_DEVICE:
            check(clear_device(device(record.number), record.id != 0), "this device cannot be cleared");
            return;
        case BIND: return bind(process(), record.number, device(record.cores));
        case MOVE_ACCOUNT:
            check(move_account(process(), device(record.number), device(record.cores), record.time),
                  "this account cannot be moved");
            return;
        case FOLLOW_TABLE: return follow_table(process());
        case BEGIN_RESYNC: return begin_resync(process());
        case END_RESYNC: return end_resync(process());
        case RESET_PEAK: return reset_peak(device(record.number));
        case L1_BANKS:
            check(record.cores <= MAX_L1_BANKS, "no device has so many banks");
            return set_l1_banks(device(record.number), record.cores);
        default: throw Malformed("this is no control record, and belongs to no batch");
    }
}

}  // namespace ttmem
