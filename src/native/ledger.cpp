#include "ledger.hpp"

#include <malloc.h>

#include <algorithm>

namespace ttmem {

namespace {

constexpr std::uint64_t PAGE = 2048;  // kernel binaries lie in DRAM in pages of this size
constexpr std::size_t MAX_FINDINGS = 4096, MAX_REJECTIONS = 16;
constexpr std::uint64_t WORTH_TRIMMING = 100'000;

std::uint64_t padded(std::uint64_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

std::uint64_t mix(std::uint64_t x) {
    x ^= x >> 33, x *= 0xff51afd7ed558ccdull, x ^= x >> 33, x *= 0xc4ceb9fe1a85ec53ull;
    return x ^ (x >> 33);
}

std::uint64_t finding_key(Anomaly anomaly, std::uint64_t process, std::uint64_t device) {
    return (std::uint64_t(anomaly) << 56) | (process << 16) | device;
}

template <typename T>
void link_into(T*& head, T& item, T* T::*previous, T* T::*next) {
    item.*previous = nullptr;
    item.*next = head;
    if (head) {
        head->*previous = &item;
    }
    head = &item;
}

template <typename T>
void unlink_from(T*& head, T& item, T* T::*previous, T* T::*next) {
    (item.*previous ? (item.*previous)->*next : head) = item.*next;
    if (item.*next) {
        (item.*next)->*previous = item.*previous;
    }
}

}  // namespace

std::size_t KeyHash::operator()(const Key& key) const {
    const std::uint64_t where = (std::uint64_t{key.process} << 32) | (std::uint64_t{key.device} << 16) | key.kind;
    return mix(key.id ^ seed) ^ mix(key.second + 0x9E3779B97F4A7C15ull * (where ^ seed));
}

Ledger::Ledger(std::uint64_t max_live, std::uint64_t max_steps, std::uint64_t seed)
    : max_live_(max_live),
      max_steps_(max_steps),
      buffers_(KeyHash{seed}),
      circular_buffers_(KeyHash{seed}),
      same_id_(KeyHash{seed}),
      kernels_(KeyHash{seed}),
      programs_(KeyHash{seed}) {}

std::uint32_t Ledger::open_process() {
    const auto unused = std::find_if(processes_.begin(), processes_.end(), [](const Process& p) { return !p.open; });
    const auto index = static_cast<std::uint32_t>(unused - processes_.begin());
    if (unused == processes_.end()) {
        processes_.emplace_back();
    } else {
        *unused = Process{};
    }
    processes_[index].open = true;
    return index;
}

std::uint32_t Ledger::add_device() {
    devices_.emplace_back();
    return static_cast<std::uint32_t>(devices_.size() - 1);
}

void Ledger::bind(std::uint32_t process, std::uint32_t logical, std::uint32_t device) {
    processes_[process].bound[logical] = device;
}

void Ledger::define_cores(std::uint32_t process, std::uint32_t id, const CoreMask& mask) {
    processes_[process].cores[id] = std::make_shared<const CoreMask>(mask);
}

void Ledger::reset_peak(std::uint32_t index) {
    Device& device = devices_[index];
    std::copy(std::begin(device.held), std::end(device.held), device.peak);
    std::fill(std::begin(device.peak_time), std::end(device.peak_time), 0);
    device.l1_peak = device.l1_used();
    device.l1_peak_time = 0;
}

Account& Ledger::account_of(Process& process, std::uint32_t device) {
    std::unique_ptr<Account>& account = process.accounts[device];
    if (!account) {
        account = std::make_unique<Account>();
    }
    return *account;
}

Ledger::Context Ledger::context(std::uint32_t process, std::uint32_t device, std::uint64_t time) {
    Process& owner = processes_[process];
    return Context{owner, process, account_of(owner, device), devices_[device], static_cast<std::uint16_t>(device), time};
}

std::size_t Ledger::apply(std::uint32_t process, const Event* events, std::size_t count, std::uint64_t now) {
    Process& owner = processes_[process];
    std::uint32_t known_logical = UNBOUND, known_device = UNBOUND;
    Account* account = nullptr;
    for (std::size_t i = 0; i < count; ++i) {
        const Event& event = events[i];
        if (event.device != known_logical || account == nullptr) {
            const auto found = owner.bound.find(event.device);
            if (found == owner.bound.end()) {
                return i;
            }
            known_logical = event.device;
            known_device = found->second;
            account = &account_of(owner, known_device);
        }
        const std::uint64_t time = event.time && event.time <= now ? event.time : now;
        Context at{owner, process, *account, devices_[known_device], static_cast<std::uint16_t>(known_device), time};
        ++owner.events;
        one(at, event);
    }
    return count;
}

void Ledger::one(Context& at, const Event& event) {
    switch (event.op) {
        case ALLOC: return allocate(at, event);
        case FREE: return deallocate(at, event);
        case CB_ALLOC: return cb_allocate(at, event);
        case CB_FREE: return cb_deallocate(at, event);
        case KERNEL_LOAD: return kernel_load(at, event);
        case KERNEL_UNLOAD: return kernel_unload(at, event);
        case PROGRAM_DISPATCH: return dispatch(at, event);
        case PROGRAM_DESTROY: return destroy_program(at, event);
        case BINARY_STATUS: return set_status(at, event);
        case RING: return set_ring(at, event);
        case COUNTERS: return set_counters(at, event);
        case CACHE_ENTRIES: return set_cache_entries(at, event);
        default: return reject(at, Reject::OP, event);
    }
}

// ---- buffers ----------------------------------------------------------------------------------------------------

void Ledger::allocate(Context& at, const Event& event) {
    if (event.kind >= KINDS) {
        return reject(at, Reject::KIND, event);
    }
    if (event.size == 0) {
        return reject(at, Reject::SIZE_ZERO, event);
    }
    if (event.size > MAX_BYTES || event.extra > MAX_BYTES) {
        return reject(at, Reject::SIZE_HUGE, event);
    }
    const Key key{event.id, 0, at.process_index, at.device_index, event.kind};
    if (Buffer* found = buffers_.find(key)) {
        Buffer& buffer = *found;
        if (buffer.size == event.size) {
            const std::uint32_t resent = std::max(1u, std::min(event.number, MAX_REFERENCES));
            buffer.references = event.flags & RESENT ? resent : std::min(buffer.references + 1, MAX_REFERENCES);
            buffer.generation = at.process.generation;
            return;
        }
        if (!(event.flags & RESENT)) {
            report(at, Anomaly::BUFFER_RESIZED, buffer.size, event.id);
        }
        remove_buffer(at, buffer);
    }
    insert_buffer(at, key, event);
}

void Ledger::insert_buffer(Context& at, const Key& key, const Event& event) {
    if (!room(at, event.size, event.id)) {
        return;
    }
    Buffer& buffer = buffers_.insert(key);
    buffer.size = event.size;
    buffer.reserved = event.extra;
    buffer.address = event.address;
    buffer.time = at.time;
    buffer.order = ++order_;
    buffer.references = std::max(1u, std::min(event.number, MAX_REFERENCES));
    buffer.name = event.name;
    buffer.site = event.site;
    buffer.generation = at.process.generation;
    at.process.buffers.push(buffer);
    count_buffer(at, buffer, true);
    raise_peaks(at);
}

void Ledger::deallocate(Context& at, const Event& event) {
    const bool named = event.flags & KIND_KNOWN;
    if (named && event.kind >= KINDS) {
        return reject(at, Reject::KIND, event);
    }
    const Buffer* match = match_buffer(at.process_index, at.device_index, named ? event.kind : -1, event.id);
    if (!match) {
        return report(at, Anomaly::UNKNOWN_FREE, 0, event.id);
    }
    Buffer& buffer = const_cast<Buffer&>(*match);
    if (--buffer.references == 0) {
        remove_buffer(at, buffer);
    }
}

const Buffer* Ledger::match_buffer(std::uint32_t process, std::uint32_t device, int kind, std::uint64_t id) const {
    const auto account = processes_[process].accounts.find(device);
    if (account == processes_[process].accounts.end()) {
        return nullptr;
    }
    const Buffer* latest = nullptr;
    for (std::uint16_t each = 0; each < KINDS; ++each) {
        if ((kind >= 0 && each != kind) || account->second->count[each] == 0) {
            continue;
        }
        const Buffer* found = buffers_.find(Key{id, 0, process, static_cast<std::uint16_t>(device), each});
        if (found && (!latest || found->order > latest->order)) {
            latest = found;
        }
    }
    return latest;
}

const Buffer* Ledger::find_buffer(std::uint32_t process, std::uint32_t logical, int kind, std::uint64_t id) const {
    const auto bound = processes_[process].bound.find(logical);
    return bound == processes_[process].bound.end() ? nullptr : match_buffer(process, bound->second, kind, id);
}

void Ledger::remove_buffer(Context& at, Buffer& buffer) {
    count_buffer(at, buffer, false);
    at.process.buffers.drop(buffer);
    give_back(at, 1);
    buffers_.erase(buffer);
}

void Ledger::count_buffer(Context& at, const Buffer& buffer, bool in) {
    const std::uint64_t sign = in ? 1 : ~0ull;  // unsigned wrap-around subtracts
    const int kind = buffer.key.kind;
    at.account.requested[kind] += sign * buffer.size;
    at.account.held[kind] += sign * buffer.held();
    at.account.count[kind] += sign;
    at.account.unreserved[kind] += buffer.reserved ? 0 : sign;
    if (kind != KIND_SYSTEM) {
        at.device.held[kind] += sign * buffer.held();
    }
}

void Ledger::raise_peaks(Context& at) {
    Device& device = at.device;
    for (int kind = 0; kind < KINDS; ++kind) {
        if (device.held[kind] > device.peak[kind]) {
            device.peak[kind] = device.held[kind];
            device.peak_time[kind] = at.time;
        }
    }
    if (device.l1_used() > device.l1_peak) {
        device.l1_peak = device.l1_used();
        device.l1_peak_time = at.time;
    }
}

// ---- circular buffers -------------------------------------------------------------------------------------------

namespace {

// Two programs may place equal CBs at one address, and each frees its own: program and cores are part of the key.
Key cb_key(const Event& event, std::uint32_t process, std::uint16_t device) {
    const std::uint64_t second = event.size ^ mix(event.extra) ^ mix(std::uint64_t{event.cores} << 32);
    const std::uint16_t kind = event.flags & (GLOBAL | DATAFLOW);
    return Key{event.id, second, process, device, kind};
}

std::uint32_t references_of(const Event& event) { return std::max(1u, std::min(event.number, MAX_REFERENCES)); }

constexpr int MAX_SEARCH = 1024;

}  // namespace

void Ledger::cb_allocate(Context& at, const Event& event) {
    if (event.size == 0) {
        return reject(at, Reject::SIZE_ZERO, event);
    }
    if (event.size > MAX_BYTES || event.address > MAX_BYTES) {
        return reject(at, Reject::SIZE_HUGE, event);
    }
    std::shared_ptr<const CoreMask> mask;
    if (event.cores) {
        const auto known = at.process.cores.find(event.cores);
        if (known == at.process.cores.end() || known->second->empty() || event.size % known->second->count()) {
            return reject(at, Reject::CORES, event);
        }
        mask = known->second;
    }
    const Key key = cb_key(event, at.process_index, at.device_index);
    if (CircularBuffer* found = circular_buffers_.find(key)) {
        repeat_cb(at, *found, event);
    } else if (room(at, event.size, event.id, references_of(event))) {
        insert_cb(at, key, event, std::move(mask));
    }
    raise_peaks(at);
}

void Ledger::repeat_cb(Context& at, CircularBuffer& cb, const Event& event) {
    const bool first_resent = event.flags & RESENT && cb.generation != at.process.generation;
    const std::uint32_t before = cb.references;
    const std::uint32_t after = std::min((first_resent ? 0 : before) + references_of(event), MAX_REFERENCES);
    cb.generation = at.process.generation;
    if (after > before && !room(at, event.size, event.id, after - before)) {
        return;
    }
    count_cb(at, cb, after > before ? after - before : before - after, after > before);
    cb.references = after;
    if (after < before) {
        give_back(at, before - after);
    }
    if (cb.program) {
        cb.program->generation = at.process.generation;
    }
}

void Ledger::insert_cb(Context& at, const Key& key, const Event& event, std::shared_ptr<const CoreMask> mask) {
    CircularBuffer& cb = circular_buffers_.insert(key);
    cb.size = event.size;
    cb.per_core = mask ? event.size / mask->count() : event.size;
    cb.address = event.address ? event.address : event.id;
    cb.time = at.time;
    cb.references = references_of(event);
    cb.cores = event.cores;
    cb.flags = key.kind;
    cb.generation = at.process.generation;
    cb.mask = std::move(mask);
    cb.program = program_for(at, event.extra);
    at.process.circular_buffers.push(cb);
    const Key id_key{key.id, 0, key.process, key.device, 0};
    SameId* same = same_id_.find(id_key);
    SameId& stack = same ? *same : same_id_.insert(id_key);
    link_into(stack.latest, cb, &CircularBuffer::same_id_previous, &CircularBuffer::same_id_next);
    if (cb.program) {
        link_into(cb.program->circular_buffers, cb, &CircularBuffer::program_previous, &CircularBuffer::program_next);
        cb.program->footprint_stale = true;
        if (cb.mask) {
            cb.program->cores = cb.program->cores | *cb.mask;
        }
    }
    count_cb(at, cb, cb.references, true);
    place_cb(at, cb, true);
}

// A free names id and size, and program and cores if the client has them. Clients of the first days sent no size:
// theirs is the latest of that id.
CircularBuffer* Ledger::find_cb(Context& at, const Event& event) {
    if (CircularBuffer* exact = circular_buffers_.find(cb_key(event, at.process_index, at.device_index))) {
        return exact;
    }
    const SameId* same = same_id_.find(Key{event.id, 0, at.process_index, at.device_index, 0});
    CircularBuffer* cb = same ? same->latest : nullptr;
    for (int steps = 0; cb && steps < MAX_SEARCH; cb = cb->same_id_next, ++steps) {
        const bool same_program = !event.extra || (cb->program && cb->program->key.id == event.extra);
        if (same_program && (!event.size || cb->size == event.size)) {
            return cb;
        }
    }
    return nullptr;
}

void Ledger::cb_deallocate(Context& at, const Event& event) {
    CircularBuffer* cb = find_cb(at, event);
    if (!cb) {
        return report(at, Anomaly::UNKNOWN_CB_FREE, event.size, event.id);
    }
    if (cb->references > 1) {
        count_cb(at, *cb, 1, false);
        --cb->references;
        give_back(at, 1);
    } else {
        remove_cb(at, *cb);
    }
    raise_peaks(at);  // with the last unplaced one gone, the sum may change its method
}

// Sums by number; the map of addresses knows each distinct CB once.
void Ledger::count_cb(Context& at, const CircularBuffer& cb, std::uint32_t times, bool in) {
    if (!cb.counted()) {
        return;
    }
    const std::uint64_t signed_times = in ? times : 0ull - times;
    const std::uint64_t before = at.account.cb_used();
    at.account.cb_demand += signed_times * cb.size;
    at.account.cb_count += signed_times;
    at.account.cb_unplaced += cb.mask ? 0 : signed_times;
    at.device.cb_used += at.account.cb_used() - before;
}

void Ledger::place_cb(Context& at, const CircularBuffer& cb, bool in) {
    Account& account = at.account;
    if (!cb.mask || !cb.counted() || account.cb_map_full) {
        return;
    }
    const std::uint64_t used_before = account.cb_used();
    const auto change = [&](GridCoverage& map) {
        const std::size_t steps_before = map.steps();
        if (in) {
            map.add(*cb.mask, cb.address, cb.address + cb.per_core);
        } else {
            map.remove(*cb.mask, cb.address, cb.address + cb.per_core);
        }
        steps_ += map.steps() - steps_before;
    };
    change(account.cb_cached);
    if (cb.flags & DATAFLOW) {
        change(account.cb_dataflow);
    }
    if (steps_ > max_steps_) {
        steps_ -= account.cb_cached.steps() + account.cb_dataflow.steps();
        account.cb_cached.clear();
        account.cb_dataflow.clear();
        account.cb_map_full = true;
        report(at, Anomaly::CB_MAP_FULL, account.cb_demand, cb.key.id);
    }
    at.device.cb_used += account.cb_used() - used_before;
}

void Ledger::remove_cb(Context& at, CircularBuffer& cb) {
    count_cb(at, cb, cb.references, false);
    place_cb(at, cb, false);
    if (at.account.cb_count == 0) {
        at.account.cb_map_full = false;
    }
    at.process.circular_buffers.drop(cb);
    give_back(at, cb.references);
    SameId& same = *same_id_.find(Key{cb.key.id, 0, cb.key.process, cb.key.device, 0});
    unlink_from(same.latest, cb, &CircularBuffer::same_id_previous, &CircularBuffer::same_id_next);
    if (!same.latest) {
        same_id_.erase(same);
    }
    Program* program = cb.program;
    if (program) {
        unlink_from(program->circular_buffers, cb, &CircularBuffer::program_previous, &CircularBuffer::program_next);
    }
    circular_buffers_.erase(cb);
    if (program) {
        program->footprint_stale = true;
        if (!program->resident.empty()) {
            weigh_resident(at, *program);
        }
        drop_program_if_empty(at, *program);
    }
}

// ---- kernels ----------------------------------------------------------------------------------------------------

void Ledger::kernel_load(Context& at, const Event& event) {
    if (event.kind >= KERNEL_TYPES) {
        return reject(at, Reject::KIND, event);
    }
    if (event.size == 0) {
        return reject(at, Reject::SIZE_ZERO, event);
    }
    const bool whole = event.flags & FOOTPRINT || event.number == 0;
    if (event.size > MAX_BYTES || (!whole && event.size > MAX_BYTES / event.number)) {
        return reject(at, Reject::SIZE_HUGE, event);
    }
    const std::uint64_t footprint = whole ? event.size : event.size * event.number;
    const Key key{event.id, 0, at.process_index, at.device_index, 0};
    if (Kernel* found = kernels_.find(key)) {
        Kernel& kernel = *found;
        kernel.generation = at.process.generation;
        if (kernel.footprint == footprint) {
            if (kernel.program) {
                kernel.program->generation = at.process.generation;
            }
            if (!(event.flags & RESENT)) {
                ++kernel.dispatches;
                count_dispatch(at, kernel.program, event);
            }
            return;
        }
        if (!(event.flags & RESENT)) {
            report(at, Anomaly::KERNEL_RESIZED, kernel.footprint, event.id);
        }
        remove_kernel(at, kernel);
    }
    if (!(event.flags & RESENT)) {
        ++at.account.counters.loads, ++at.device.counters.loads;
    }
    if (!room(at, footprint, event.id)) {
        return;
    }
    Kernel& kernel = kernels_.insert(key);
    kernel.binary = whole ? 0 : event.size;
    kernel.binary_known = !whole;
    kernel.footprint = footprint;
    kernel.content = event.address;
    kernel.time = at.time;
    kernel.loads = 1;
    kernel.dispatches = 0;
    kernel.cores = whole ? 0 : event.number;
    kernel.name = event.name;
    kernel.site = event.site;
    kernel.type = event.kind;
    kernel.generation = at.process.generation;
    kernel.program = program_for(at, event.extra);
    at.process.kernels.push(kernel);
    if (kernel.program) {
        link_into(kernel.program->kernels, kernel, &Kernel::program_previous, &Kernel::program_next);
        kernel.program->had_kernels = true;
        const auto cores = at.process.cores.find(event.cores);
        if (event.cores && cores != at.process.cores.end()) {
            kernel.program->cores = kernel.program->cores | *cores->second;
        }
    }
    count_kernel(at, kernel, true);
}

void Ledger::kernel_unload(Context& at, const Event& event) {
    Kernel* kernel = kernels_.find(Key{event.id, 0, at.process_index, at.device_index, 0});
    if (!kernel) {
        return report(at, Anomaly::UNKNOWN_UNLOAD, event.size, event.id);
    }
    ++at.account.counters.unloads, ++at.device.counters.unloads;
    remove_kernel(at, *kernel);
}

void Ledger::remove_kernel(Context& at, Kernel& kernel) {
    count_kernel(at, kernel, false);
    at.process.kernels.drop(kernel);
    give_back(at, 1);
    Program* program = kernel.program;
    if (program) {
        unlink_from(program->kernels, kernel, &Kernel::program_previous, &Kernel::program_next);
    }
    kernels_.erase(kernel);
    if (program) {
        drop_program_if_empty(at, *program);
    }
}

void Ledger::count_kernel(Context& at, const Kernel& kernel, bool in) {
    const std::uint64_t sign = in ? 1 : ~0ull;
    at.account.footprint[kernel.type] += sign * kernel.footprint;
    at.account.kernels[kernel.type] += sign;
    count_binary(at, kernel, in);
    if (kernel.content == 0 || !kernel.binary_known) {
        at.device.unknown_contents += sign;
        return;
    }
    Content& content = at.device.contents[kernel.content];
    if (in && content.kernels++ == 0) {
        content.bytes = kernel.binary;
        at.device.distinct_bytes += content.bytes;
    } else if (!in && --content.kernels == 0) {
        at.device.distinct_bytes -= content.bytes;
        at.device.contents.erase(kernel.content);
    }
}

// The copy in DRAM exists from InFlight on; slow dispatch never makes one.
void Ledger::count_binary(Context& at, const Kernel& kernel, bool in) {
    const std::uint64_t sign = in ? 1 : ~0ull;
    if (!kernel.binary_known || !kernel.program || !kernel.program->status_known) {
        at.account.unknown_binaries += sign;
    } else if (kernel.program->status > 0) {
        at.account.dram_binaries += sign * padded(kernel.binary);
    }
}

// ---- programs ---------------------------------------------------------------------------------------------------

Program* Ledger::program_for(Context& at, std::uint64_t id) {
    if (id == 0) {
        return nullptr;
    }
    const Key key{id, 0, at.process_index, at.device_index, 0};
    Program* program = programs_.find(key);
    if (!program) {
        if (!room(at, 0, id)) {
            return nullptr;
        }
        program = &programs_.insert(key);
        at.process.programs.push(*program);
        ++at.account.programs;
    }
    program->generation = at.process.generation;
    return program;
}

void Ledger::drop_program(Context& at, Program& program) {
    clear_resident(at, program);
    if (at.device.last_dispatched == &program) {
        at.device.last_dispatched = nullptr;
    }
    at.process.programs.drop(program);
    --at.account.programs;
    give_back(at, 1);
    programs_.erase(program);
}

void Ledger::drop_program_if_empty(Context& at, Program& program) {
    const bool never_used = !program.status_known && program.dispatches == 0;
    const bool bare = !program.kernels && !program.circular_buffers;
    if (bare && !program.dying && (program.had_kernels || never_used)) {
        drop_program(at, program);
    }
}

void Ledger::destroy_program(Context& at, const Event& event) {
    Program* found = programs_.find(Key{event.id, 0, at.process_index, at.device_index, 0});
    if (!found) {
        return report(at, Anomaly::UNKNOWN_UNLOAD, 0, event.id);
    }
    Program& program = *found;
    clear_resident(at, program);
    program.dying = true;
    while (program.circular_buffers) {
        remove_cb(at, *program.circular_buffers);
    }
    while (program.kernels) {
        ++at.account.counters.unloads, ++at.device.counters.unloads;
        remove_kernel(at, *program.kernels);
    }
    drop_program(at, program);
}

void Ledger::dispatch(Context& at, const Event& event) {
    Program* program = program_for(at, event.id);
    count_dispatch(at, program, event);
}

void Ledger::count_dispatch(Context& at, Program* program, const Event& event) {
    const std::uint64_t news = event.flags & RESENT ? 0 : 1;
    const std::uint64_t hit = event.flags & CACHE_HIT ? news : 0, miss = event.flags & CACHE_MISS ? news : 0;
    at.account.counters.dispatches += news, at.device.counters.dispatches += news;
    at.account.counters.hits += hit, at.device.counters.hits += hit;
    at.account.counters.misses += miss, at.device.counters.misses += miss;
    if (hit || miss) {
        at.account.cache_seen = at.device.cache_seen = true;
    }
    if (!program) {
        return;
    }
    program->dispatches += news;
    program->hits += hit;
    program->misses += miss;
    program->last_dispatch = at.time;
    const auto cores = at.process.cores.find(event.cores);
    const bool named = event.op == PROGRAM_DISPATCH && event.cores && cores != at.process.cores.end();
    set_resident(at, *program, named ? *cores->second : program->cores);
}

// Dispatching a program again, with nothing in between, compares one pointer.
void Ledger::set_resident(Context& at, Program& program, const CoreMask& cores) {
    const bool again = at.device.last_dispatched == &program && program.resident == cores;
    if (cores.empty() || (again && !program.footprint_stale)) {
        return;
    }
    for (std::size_t i = 0; i < at.device.residents.size();) {
        Program& other = *at.device.residents[i];
        if (&other == &program || (other.resident & cores).empty()) {
            ++i;
            continue;
        }
        const CoreMask rest = other.resident.without(cores);
        if (rest.empty()) {
            clear_resident(at, other);
        } else {
            other.resident = rest;
            weigh_resident(at, other);
            ++i;
        }
    }
    if (program.resident.empty() && !cores.empty()) {
        at.device.residents.push_back(&program);
    }
    program.resident = program.resident | cores;
    weigh_resident(at, program);
    at.device.last_dispatched = &program;
}

// What the program's circular buffers take on the cores where it ran last.
void Ledger::weigh_resident(Context& at, Program& program) {
    if (program.footprint_stale) {
        GridCoverage layout;
        for (const CircularBuffer* cb = program.circular_buffers; cb; cb = cb->program_next) {
            if (cb->mask && cb->counted()) {
                layout.add(*cb->mask, cb->address, cb->address + cb->per_core);
            }
        }
        program.footprint.clear();
        for (const GridCoverage::Class& part : layout.classes()) {
            program.footprint.emplace_back(part.cores, part.coverage.covered());
        }
        program.footprint_stale = false;
    }
    std::uint64_t bytes = 0;
    for (const auto& [cores, per_core] : program.footprint) {
        bytes += per_core * (cores & program.resident).count();
    }
    Account& owner = account_of(processes_[program.key.process], at.device_index);
    owner.cb_resident += bytes - program.resident_bytes;
    program.resident_bytes = bytes;
}

void Ledger::clear_resident(Context& at, Program& program) {
    Account& owner = account_of(processes_[program.key.process], at.device_index);
    owner.cb_resident -= program.resident_bytes;
    program.resident_bytes = 0;
    if (!program.resident.empty()) {
        std::vector<Program*>& residents = at.device.residents;
        residents.erase(std::find(residents.begin(), residents.end(), &program));
    }
    program.resident = CoreMask{};
}

void Ledger::set_status(Context& at, const Event& event) {
    if (event.kind > 2) {
        return reject(at, Reject::KIND, event);
    }
    Program* program = program_for(at, event.id);
    if (!program) {
        return;
    }
    if (program->status_known && event.kind < program->status && !(event.flags & RESENT)) {
        report(at, Anomaly::STATUS_BACKWARDS, 0, event.id);
    }
    for (const Kernel* kernel = program->kernels; kernel; kernel = kernel->program_next) {
        count_binary(at, *kernel, false);
    }
    program->status = event.kind;
    program->status_known = true;
    for (const Kernel* kernel = program->kernels; kernel; kernel = kernel->program_next) {
        count_binary(at, *kernel, true);
    }
}

// ---- gauges and counters that the client keeps -----------------------------------------------------------------

void Ledger::set_ring(Context& at, const Event& event) {
    if (event.id > MAX_BYTES || event.size > MAX_BYTES) {
        return reject(at, Reject::SIZE_HUGE, event);
    }
    at.account.ring = Ring{event.id, event.size, event.extra, event.address, event.number, at.time};
}

void Ledger::set_counters(Context& at, const Event& event) {
    const std::uint64_t given[] = {event.id, event.size, event.extra, event.address, event.number};
    Counters &mine = at.account.counters, &all = at.device.counters;
    std::uint64_t* own[] = {&mine.loads, &mine.unloads, &mine.dispatches, &mine.hits, &mine.misses};
    std::uint64_t* sum[] = {&all.loads, &all.unloads, &all.dispatches, &all.hits, &all.misses};
    if (*std::max_element(std::begin(given), std::end(given)) > MAX_BYTES) {
        return reject(at, Reject::SIZE_HUGE, event);
    }
    for (int i = 0; i < 5; ++i) {
        if (given[i] > *own[i]) {
            *sum[i] += given[i] - *own[i];
            *own[i] = given[i];
        }
    }
    if (event.address || event.number) {
        at.account.cache_seen = at.device.cache_seen = true;
    }
}

void Ledger::set_cache_entries(Context& at, const Event& event) {
    if (event.size > MAX_BYTES) {
        return reject(at, Reject::SIZE_HUGE, event);
    }
    at.account.cache_entries = event.size;
    at.account.cache_entries_known = true;
}

// ---- bounds, findings, death ------------------------------------------------------------------------------------

// Stacked circular buffers count one by one: the limit on entries also keeps every sum far below 2^63.
bool Ledger::room(Context& at, std::uint64_t bytes, std::uint64_t id, std::uint64_t entries) {
    if (live_ + entries > max_live_) {
        ++dropped_;
        report(at, Anomaly::TABLE_FULL, bytes, id);
        return false;
    }
    live_ += entries, at.process.live += entries;
    return true;
}

void Ledger::give_back(Context& at, std::uint64_t entries) { live_ -= entries, at.process.live -= entries; }

void Ledger::reject(Context& at, Reject reason, const Event& event) {
    ++rejected_;
    report(at, Anomaly::REJECTED, 0, event.id);
    if (rejections_.size() < MAX_REJECTIONS) {
        rejections_.push_back(Rejection{reason, at.process_index, event});
    }
}

std::vector<Rejection> Ledger::take_rejections() {
    std::vector<Rejection> taken;
    taken.swap(rejections_);
    return taken;
}

void Ledger::report(Context& at, Anomaly anomaly, std::uint64_t bytes, std::uint64_t id) {
    const std::uint64_t key = finding_key(anomaly, at.process_index, at.device_index);
    auto found = finding_index_.find(key);
    if (found == finding_index_.end()) {
        if (findings_.size() >= MAX_FINDINGS) {
            return;
        }
        found = finding_index_.emplace(key, findings_.size()).first;
        findings_.push_back(Finding{anomaly, at.process_index, at.device_index, 0, 0, 0});
    }
    Finding& finding = findings_[found->second];
    ++finding.times;
    finding.bytes += bytes;
    finding.last_id = id;
}

void Ledger::begin_resync(std::uint32_t process) { ++processes_[process].generation; }

void Ledger::end_resync(std::uint32_t process) { sweep(process, false); }

// Removes what a process holds: everything, or only what it did not name again since begin_resync.
void Ledger::sweep(std::uint32_t index, bool everything) {
    Process& process = processes_[index];
    const auto each = [&](auto& chain, auto remove) {
        for (auto* item = chain.head; item;) {
            auto* next = item->next;
            if (everything || item->generation != process.generation) {
                Context at = context(index, item->key.device, 0);
                remove(at, *item);
            }
            item = next;
        }
    };
    each(process.buffers, [this](Context& at, Buffer& item) { remove_buffer(at, item); });
    each(process.circular_buffers, [this](Context& at, CircularBuffer& item) { remove_cb(at, item); });
    each(process.kernels, [this](Context& at, Kernel& item) { remove_kernel(at, item); });
    each(process.programs, [this, everything](Context& at, Program& item) {
        if (everything || (!item.kernels && !item.circular_buffers)) {
            drop_program(at, item);
        }
    });
}

void Ledger::release_process(std::uint32_t index) {
    const std::uint64_t held = processes_[index].live;
    sweep(index, true);
    processes_[index] = Process{};
    std::vector<Finding> kept;
    for (const Finding& finding : findings_) {
        if (finding.process != index) {
            kept.push_back(finding);
        }
    }
    findings_.swap(kept);
    finding_index_.clear();
    for (std::size_t i = 0; i < findings_.size(); ++i) {
        finding_index_[finding_key(findings_[i].anomaly, findings_[i].process, findings_[i].device)] = i;
    }
    if (held > WORTH_TRIMMING) {
        malloc_trim(0);
    }
}

}  // namespace ttmem
