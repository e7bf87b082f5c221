// Kernels and programs: footprints, copies in DRAM, residency on cores, counters, the ring.
#include "ledger.hpp"

#include <algorithm>
#include <new>

#include "links.hpp"

namespace ttmem {

using What = RecentFrees::What;

namespace {

constexpr std::uint64_t PAGE = 2048;  // kernel binaries lie in DRAM in pages of this size

std::uint64_t padded(std::uint64_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

}  // namespace

void Ledger::kernel_load(Context& at, const Event& event) {
    const Key key{event.id, 0, at.process_index, at.device_index, 0};
    const auto refuse = [&](Reject reason) {
        at.process.freed.unseen(key.name(What::KERNEL));
        reject(at, reason, event);
    };
    if (event.kind >= KERNEL_TYPES) {
        return refuse(Reject::KIND);
    }
    if (event.size == 0) {
        return refuse(Reject::SIZE_ZERO);
    }
    const bool whole = event.flags & FOOTPRINT || event.number == 0;
    if (event.size > MAX_BYTES || (!whole && event.size > MAX_BYTES / event.number)) {
        return refuse(Reject::SIZE_HUGE);
    }
    const std::uint64_t footprint = whole ? event.size : event.size * event.number;
    kernels_.make_room();
    programs_.make_room();
    if (Kernel* found = kernels_.find(key)) {
        Kernel& kernel = *found;
        kernel.generation = at.process.generation;
        if (kernel.footprint == footprint) {
            if (kernel.program) {
                kernel.program->generation = at.process.generation;
            }
            if (!(event.flags & RESENT) && !at.process.follows_table) {
                ++kernel.repeats;
                count_dispatch(at, kernel.program, event);
            }
            return;
        }
        if (!(event.flags & RESENT)) {
            report(at, FindingCode::KERNEL_RESIZED, kernel.footprint, event.id);
        }
        remove_kernel(at, kernel);
    }
    if (!(event.flags & RESENT)) {
        ++at.account.counters.loads, ++at.device.counters.loads;
    }
    if (!has_space(at, footprint, event.id)) {
        return at.process.freed.unseen(key.name(What::KERNEL));
    }
    Kernel& kernel = kernels_.insert(key);
    kernel.binary = whole ? 0 : event.size;
    kernel.binary_known = !whole;
    kernel.footprint = footprint;
    kernel.content = event.address;
    kernel.time = at.time;
    // The table of a probe has an entry for each load; a client resends what is alive, but not how often it was loaded.
    kernel.loads = event.flags & RESENT && !at.process.follows_table ? 0 : 1;
    kernel.repeats = 0;
    kernel.cores = whole ? 0 : event.number;
    kernel.name = event.name;
    kernel.site = event.site;
    kernel.type = event.kind;
    kernel.generation = at.process.generation;
    if (kernel.content && kernel.binary_known) {
        try {
            at.device.contents.try_emplace(kernel.content);
        } catch (const std::bad_alloc&) {
            kernel.content = 0;
        }
    }
    kernel.program = program_for(at, event.extra);
    kernel.runs_before = kernel.program ? kernel.program->runs : 0;
    at.process.kernels.push(kernel);
    if (kernel.program) {
        link_into(kernel.program->kernels, kernel, &Kernel::program_previous, &Kernel::program_next);
        kernel.program->had_kernels = true;
        kernel.program->site = kernel.program->site ? kernel.program->site : event.site;
        const auto cores = at.process.cores.find(event.cores);
        if (event.cores && cores != at.process.cores.end()) {
            kernel.program->cores = kernel.program->cores | *cores->second;
        }
    }
    count_kernel(at, kernel, true);
}

void Ledger::kernel_unload(Context& at, const Event& event) {
    const Key key{event.id, 0, at.process_index, at.device_index, 0};
    Kernel* kernel = kernels_.find(key);
    if (!kernel) {
        return report_unmatched(
            at, at.process.freed.has(key.name(What::KERNEL)), FindingCode::DOUBLE_UNLOAD, FindingCode::UNKNOWN_UNLOAD, event);
    }
    ++at.account.counters.unloads, ++at.device.counters.unloads;
    at.process.freed.freed(key.name(What::KERNEL));
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
    at.device.footprint += sign * kernel.footprint;
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

Program* Ledger::program_for(Context& at, std::uint64_t id) {
    if (id == 0) {
        return nullptr;
    }
    const Key key{id, 0, at.process_index, at.device_index, 0};
    Program* program = programs_.find(key);
    if (!program) {
        programs_.make_room();
        if (!has_space(at, 0, id)) {
            at.process.freed.unseen(key.name(What::PROGRAM));
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
    if (at.process.follows_table && program.misses && at.account.cache_entries) {
        --at.account.cache_entries;
    }
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
    const Key key{event.id, 0, at.process_index, at.device_index, 0};
    Program* found = programs_.find(key);
    if (!found) {
        return report_unmatched(
            at, at.process.freed.has(key.name(What::PROGRAM)), FindingCode::DOUBLE_UNLOAD, FindingCode::UNKNOWN_UNLOAD, event);
    }
    at.process.freed.freed(key.name(What::PROGRAM));
    Program& program = *found;
    clear_resident(at, program);
    program.dying = true;
    while (program.circular_buffers) {
        at.process.freed.freed(program.circular_buffers->key.name(What::CIRCULAR_BUFFER));
        remove_cb(at, *program.circular_buffers);
    }
    while (program.kernels) {
        at.process.freed.freed(program.kernels->key.name(What::KERNEL));
        ++at.account.counters.unloads, ++at.device.counters.unloads;
        remove_kernel(at, *program.kernels);
    }
    drop_program(at, program);
}

void Ledger::dispatch(Context& at, const Event& event) {
    Program* program = program_for(at, event.id);
    if (program) {
        program->runs += event.flags & RESENT ? 0 : 1;
        program->last_site = event.site;
        // A program is created where it first runs; whoever finds it in the cache did not create it.
        if (!program->name && !program->site && !(event.flags & (CACHE_HIT | RESENT))) {
            program->site = event.site;
        }
        program->name = program->name ? program->name : event.name;
    }
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
    // A probe counts the entries only once per reading. On one device, a workload has one program.
    if (miss && at.process.follows_table) {
        ++at.account.cache_entries;
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

// Dispatching the same program again only compares one pointer.
void Ledger::set_resident(Context& at, Program& program, const CoreMask& cores) {
    const bool again = at.device.last_dispatched == &program && program.resident == cores;
    if (cores.empty() || (again && !program.footprint_stale)) {
        return;
    }
    if (program.resident.empty()) {
        try {
            at.device.residents.push_back(&program);
        } catch (const std::bad_alloc&) {
            return;
        }
    }
    evict(at, program, cores);
    program.resident = program.resident | cores;
    if (program.footprint_stale) {
        lay_out(program);
    }
    weigh_resident(at, program);
    at.device.last_dispatched = &program;
}

// A core has space for the circular buffers of one program at a time.
void Ledger::evict(Context& at, const Program& program, const CoreMask& cores) {
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
}

// The circular buffers at the time of the dispatch: those added later are not on any core yet.
void Ledger::lay_out(Program& program) {
    program.footprint.clear();
    try {
        GridCoverage layout;
        for (const CircularBuffer* cb = program.circular_buffers; cb; cb = cb->program_next) {
            if (cb->mask && cb->counted()) {
                layout.add(*cb->mask, cb->address, cb->address + cb->per_core);
            }
        }
        for (const GridCoverage::Class& part : layout.classes()) {
            program.footprint.emplace_back(part.cores, part.coverage.covered());
        }
        program.footprint_stale = false;
    } catch (const std::bad_alloc&) {
        program.footprint.clear();  // the next dispatch tries again
    }
}

// What the program's circular buffers take on the cores where it ran last.
void Ledger::weigh_resident(Context& at, Program& program) {
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
        report(at, FindingCode::STATUS_BACKWARDS, 0, event.id);
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

void Ledger::name_program(Context& at, const Event& event) {
    if (Program* program = programs_.find(Key{event.id, 0, at.process_index, at.device_index, 0})) {
        program->name = event.name;
        program->site = event.site;
    }
}

void Ledger::set_ring(Context& at, const Event& event) {
    if (event.id > MAX_BYTES || event.size > MAX_BYTES) {
        return reject(at, Reject::SIZE_HUGE, event);
    }
    // Without a time it would look as if it had never been reported.
    const std::uint64_t time = std::max<std::uint64_t>(at.time, 1);
    at.account.ring = Ring{event.id, event.size, event.extra, event.address, event.number, time};
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

}  // namespace ttmem
