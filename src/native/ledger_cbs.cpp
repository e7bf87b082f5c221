// Circular buffers: demand by number, cached by the map of addresses.
#include "ledger.hpp"

#include <algorithm>
#include <new>

#include "links.hpp"

namespace ttmem {

using What = RecentFrees::What;

namespace {

// Two programs may place equal CBs at one address, and each frees its own, so program and cores are part of the key.
Key cb_key(const Event& event, std::uint32_t process, std::uint16_t device) {
    const std::uint64_t second = event.size ^ mix(event.extra) ^ mix(std::uint64_t{event.cores} << 32);
    const std::uint16_t kind = event.flags & (GLOBAL | DATAFLOW);
    return Key{event.id, second, process, device, kind};
}

std::uint32_t references_of(const Event& event) { return std::max(1u, std::min(event.number, MAX_REFERENCES)); }

constexpr int MAX_SEARCH = 1024;

}  // namespace

void Ledger::cb_allocate(Context& at, const Event& event) {
    const Key key = cb_key(event, at.process_index, at.device_index);
    const auto refuse = [&](Reject reason) {
        at.process.freed.unseen(key.name(What::CIRCULAR_BUFFER));
        reject(at, reason, event);
    };
    if (event.size == 0) {
        return refuse(Reject::SIZE_ZERO);
    }
    if (event.size > MAX_BYTES || event.address > MAX_BYTES) {
        return refuse(Reject::SIZE_HUGE);
    }
    circular_buffers_.expect(key);
    same_id_.expect(Key{event.id, 0, at.process_index, at.device_index, 0});
    programs_.expect(Key{event.extra, 0, at.process_index, at.device_index, 0});
    std::shared_ptr<const CoreMask> mask;
    if (event.cores) {
        const auto known = at.process.cores.find(event.cores);
        const bool usable =
            known != at.process.cores.end() && !known->second->empty() && event.size % known->second->count() == 0;
        if (usable) {
            mask = known->second;
        } else if (!at.process.follows_table) {  // its set may not have fitted into the table
            return refuse(Reject::CORES);
        }
    }
    circular_buffers_.make_room();
    same_id_.make_room();
    programs_.make_room();
    if (CircularBuffer* found = circular_buffers_.find(key)) {
        repeat_cb(at, *found, event);
    } else if (has_space(at, event.size, event.id, references_of(event))) {
        insert_cb(at, key, event, std::move(mask));
    } else {
        at.process.freed.unseen(key.name(What::CIRCULAR_BUFFER));
    }
    raise_peaks(at);
}

void Ledger::repeat_cb(Context& at, CircularBuffer& cb, const Event& event) {
    const bool first_resent =
        at.process.follows_table || (event.flags & RESENT && cb.generation != at.process.generation);
    const std::uint32_t before = cb.references;
    const std::uint32_t after = std::min((first_resent ? 0 : before) + references_of(event), MAX_REFERENCES);
    cb.generation = at.process.generation;
    if (after > before && !has_space(at, event.size, event.id, after - before)) {
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
    link_cb(at, cb);
    if (cb.program) {
        cb.program->footprint_stale = true;
        // A program is laid out before it is dispatched for the first time, by the same op.
        if (!cb.program->name && event.name) {
            cb.program->name = event.name;
            cb.program->site = cb.program->site ? cb.program->site : event.site;
        }
        if (cb.mask) {
            cb.program->cores = cb.program->cores | *cb.mask;
        }
    }
    count_cb(at, cb, cb.references, true);
    place_cb(at, cb, true);
}

void Ledger::link_cb(Context& at, CircularBuffer& cb) {
    at.process.circular_buffers.push(cb);
    const Key id_key{cb.key.id, 0, cb.key.process, cb.key.device, 0};
    SameId* same = same_id_.find(id_key);
    SameId& stack = same ? *same : same_id_.insert(id_key);
    link_into(stack.latest, cb, &CircularBuffer::same_id_previous, &CircularBuffer::same_id_next);
    if (cb.program) {
        link_into(cb.program->circular_buffers, cb, &CircularBuffer::program_previous, &CircularBuffer::program_next);
    }
}

// A free names id and size, and program and cores if the client has them. The earliest clients sent no size: they mean
// the latest CB with that id.
CircularBuffer* Ledger::find_cb(Context& at, const Event& event) {
    CircularBuffer* exact = circular_buffers_.find(cb_key(event, at.process_index, at.device_index));
    if (exact || at.process.follows_table) {
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
        const bool freed = at.process.freed.has(cb_key(event, at.process_index, at.device_index).name(What::CIRCULAR_BUFFER));
        return report_unmatched(at, freed, FindingCode::DOUBLE_CB_FREE, FindingCode::UNKNOWN_CB_FREE, event);
    }
    if (cb->references > 1) {
        count_cb(at, *cb, 1, false);
        --cb->references;
        give_back(at, 1);
    } else {
        at.process.freed.freed(cb->key.name(What::CIRCULAR_BUFFER));
        remove_cb(at, *cb);
    }
    raise_peaks(at);  // with the last unplaced one gone, the sum may change its method
}

// Sums by number; the map of addresses knows each distinct CB once.
void Ledger::count_cb(Context& at, const CircularBuffer& cb, std::uint32_t times, bool in) {
    const std::uint64_t signed_times = in ? times : 0ull - times;
    if (!cb.counted()) {
        at.account.global_cbs += signed_times;
        return;
    }
    const std::uint64_t before = at.account.cb_used();
    at.account.cb_demand += signed_times * cb.size;
    at.device.cb_demand += signed_times * cb.size;
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
    const std::size_t steps_before = account.cb_cached.steps() + account.cb_dataflow.steps();
    const auto change = [&](GridCoverage& map) {
        if (in) {
            map.add(*cb.mask, cb.address, cb.address + cb.per_core);
        } else {
            map.remove(*cb.mask, cb.address, cb.address + cb.per_core);
        }
    };
    bool full = false;
    try {
        change(account.cb_cached);
        if (cb.flags & DATAFLOW) {
            change(account.cb_dataflow);
        }
    } catch (const std::bad_alloc&) {
        full = true;
    }
    steps_ -= steps_before;
    const std::size_t steps_after = account.cb_cached.steps() + account.cb_dataflow.steps();
    if (full || steps_ + steps_after > max_steps_) {
        account.cb_cached.clear();
        account.cb_dataflow.clear();
        account.cb_map_full = true;
        report(at, FindingCode::CB_MAP_FULL, account.cb_demand, cb.key.id);
    } else {
        steps_ += steps_after;
    }
    if (account.cb_cached.watched()) {
        count_watched(account);
    }
    at.device.cb_used += account.cb_used() - used_before;
    if (in) {
        account.highest_cb = std::max(account.highest_cb, cb.address + cb.per_core);
        watch(at);
    }
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
            lay_out(*program);
            weigh_resident(at, *program);
        }
        drop_program_if_empty(at, *program);
    }
}

}  // namespace ttmem
