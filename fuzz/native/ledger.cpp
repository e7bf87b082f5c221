// Any bytes as events of two processes, with memory that may run out on the way; then the laws of the accounts.
//
// An input: which allocation fails (2 bytes, 0: none), then steps of 65 bytes, a command and an event. The last step may
// be short; the rest of its event is zero.
#include "../../src/native/event_lines.hpp"

#include <algorithm>
#include <cstring>

#include "oom.hpp"

using namespace ttmem;

namespace {

constexpr std::uint64_t MOST_LIVE = 400, MOST_STEPS = 300;

void law(bool holds) {
    if (!holds) {
        __builtin_trap();
    }
}

template <typename T>
bool contains(const Chain<T>& chain, const T* wanted) {
    const T* each = chain.head;
    while (each && each != wanted) {
        each = each->next;
    }
    return each != nullptr;
}

// What the list of residents leads to: programs that are alive, where their circular buffers lie.
void check_residents(const Ledger& ledger) {
    for (const Device& device : ledger.devices()) {
        for (const Program* program : device.residents) {
            law(contains(ledger.processes()[program->key.process].programs, program));
            for (const CircularBuffer* cb = program->circular_buffers; cb; cb = cb->program_next) {
                law(cb->program == program && (!cb->mask || cb->mask->count() >= 0));
            }
        }
    }
}

void check(const Ledger& ledger) {
    check_residents(ledger);
    std::uint64_t live = 0;
    std::vector<std::uint64_t> held(ledger.devices().size() * KINDS), cb_used(ledger.devices().size());
    for (const Process& process : ledger.processes()) {
        std::uint64_t mine = 0;
        for (const auto& [device, account] : process.accounts) {
            std::uint64_t requested[KINDS] = {}, own[KINDS] = {}, count[KINDS] = {}, demand = 0, cbs = 0, global_cbs = 0, resident = 0;
            for (const Buffer* b = process.buffers.head; b; b = b->next) {
                if (b->key.device == device) {
                    law(b->key.kind < KINDS && b->references > 0 && b->references <= MAX_REFERENCES);
                    requested[b->key.kind] += b->size, own[b->key.kind] += b->held(), ++count[b->key.kind], ++mine;
                }
            }
            for (const CircularBuffer* cb = process.circular_buffers.head; cb; cb = cb->next) {
                if (cb->key.device == device) {
                    demand += cb->counted() ? cb->references * cb->size : 0;
                    (cb->counted() ? cbs : global_cbs) += cb->references;
                    mine += cb->references;
                    law(!cb->program || contains(process.programs, cb->program));
                }
            }
            std::uint64_t kernels = 0, programs = 0;
            for (const Kernel* k = process.kernels.head; k; k = k->next) {
                kernels += k->key.device == device;
                law(!k->program || contains(process.programs, k->program));
            }
            for (const Program* p = process.programs.head; p; p = p->next) {
                if (p->key.device == device) {
                    ++programs, resident += p->resident_bytes;
                }
            }
            mine += kernels + programs;
            for (int kind = 0; kind < KINDS; ++kind) {
                law(account->requested[kind] == requested[kind] && account->held[kind] == own[kind]);
                law(account->count[kind] == count[kind]);
                held[device * KINDS + static_cast<std::size_t>(kind)] += kind == KIND_SYSTEM_MEMORY ? 0 : own[kind];
            }
            law(account->cb_demand == demand && account->cb_count == cbs && account->cb_resident == resident);
            law(account->global_cbs == global_cbs);
            law(account->kernels[0] + account->kernels[1] + account->kernels[2] == kernels);
            law(account->programs == programs);
            law(account->cb_cached.total() <= demand && account->cb_dataflow.total() <= account->cb_cached.total());
            std::uint64_t covered = 0;
            for (const GridCoverage::Class& part : account->cb_cached.classes()) {
                for (const auto& [start, end] : part.coverage.regions()) {
                    law(start < end);
                    covered += (end - start) * static_cast<std::uint64_t>(part.cores.count());
                }
            }
            law(account->cb_cached.total() == covered);
            cb_used[device] += account->cb_used();
        }
        law(process.live == mine);
        live += mine;
    }
    law(ledger.live() == live && live <= MOST_LIVE);
    for (std::size_t i = 0; i < ledger.devices().size(); ++i) {
        const Device& device = ledger.devices()[i];
        for (int kind = 0; kind < KINDS; ++kind) {
            law(device.held[kind] == held[i * KINDS + static_cast<std::size_t>(kind)]);
        }
        law(device.cb_used == cb_used[i] && device.l1_used() <= device.l1_peak);
    }
}

// A device that was cleared is as new, and nobody has an account there.
void clear_device(Ledger& ledger, std::uint32_t device, bool unbind) {
    if (!ledger.clear_device(device, unbind)) {
        return;
    }
    law(ledger.devices()[device].l1_peak == 0 && ledger.devices()[device].residents.empty());
    for (const Process& process : ledger.processes()) {
        law(process.accounts.count(device) == 0);
        for (const auto& bound : process.bound) {
            law(bound.second != device);
        }
    }
    for (const Finding& finding : ledger.findings()) {
        law(finding.device != device);
    }
}

// In words: whole lines, of which none has anything in it that a terminal would obey.
void tell(Ledger& ledger, EventLines& lines, std::uint32_t process, const Event& event) {
    std::string text;
    const std::size_t taken = lines.apply(ledger, {process, event.number, event.time, (event.id & 1) != 0}, &event, 1, ~0ull >> 1, text);
    law(taken <= 1 && (text.empty() || text.back() == '\n'));
    law(std::none_of(text.begin(), text.end(), [](char c) { return (c >= 0 && c < ' ' && c != '\n') || c == 127; }));
}

void step(Ledger& ledger, EventLines& lines, std::uint8_t command, const Event& event) {
    const std::uint32_t process = command & 1;
    switch (command >> 1 & 15) {
        case 1: return ledger.begin_resync(process);
        case 2: return ledger.end_resync(process);
        case 3: return ledger.follow_table(process);
        case 4: return ledger.reset_peak(event.device % 2);
        case 5: ledger.move_account(process, event.device % 3, event.number % 3, event.time); return;
        case 6: ledger.largest_free(event.device % 3, event.kind % KINDS, Region{event.id, event.size >> 20, event.number}); return;
        case 7: ledger.find_buffer(process, event.device, event.kind % 6 - 1, event.id); return;
        case 8: ledger.take_rejections(); return ledger.trim();
        case 9: {
            CoreMask mask;
            std::memcpy(mask.words.data(), &event.id, 40);
            return ledger.define_cores(process, event.cores, mask);
        }
        case 10:
            ledger.release_process(process);
            // 8 open two at most: an index is used again at once
            while (!ledger.valid_process(process)) {
                ledger.open_process();
            }
            for (std::uint32_t i = 0; i < 3; ++i) {
                ledger.bind(process, i, i);
            }
            return;
        case 11: return clear_device(ledger, event.device % 3, event.flags & 1);
        case 12: return ledger.bind(process, event.device % 4, event.number % 3);
        case 13: return tell(ledger, lines, process, event);
        case 14:
            law(ledger.findings().size() <= 4096);
            ledger.take_found();
            return;
        case 15: {
            std::size_t taken = 0;
            Event record = event;
            if (record.op == OPEN_PROCESS || record.op == RELEASE_PROCESS) {  // the other steps need both processes
                record.op = BATCH;
            }
            try {
                ledger.replay(&record, 1, taken);
            } catch (const Malformed&) {
            }
            law(taken <= 1);
            return;
        }
        default: ledger.apply(process, &event, 1, ~0ull >> 1);
    }
}

// The accounts can be saved in every state, and the copy is the same to the byte; a state in which something was changed is
// refused, or obeys the laws too.
void check_copies(const Ledger& ledger, const std::uint8_t* data, std::size_t size) {
    const std::string state = ledger.save();
    const auto copy = Ledger::restored(state.data(), state.size(), 2);
    check(*copy);
    law(copy->save() == state);
    std::string changed = state;
    for (std::size_t at = 0; at + 3 <= size && at < 24; at += 3) {
        changed[(data[at] | data[at + 1] << 8) % changed.size()] ^= static_cast<char>(data[at + 2]);
    }
    try {
        const auto other = Ledger::restored(changed.data(), changed.size(), 3);
        for (std::uint32_t process = 0; process < other->processes().size(); ++process) {
            if (other->valid_process(process)) {
                other->release_process(process);
            }
        }
        law(other->live() == 0);
    } catch (const Malformed&) {
    } catch (const std::bad_alloc&) {
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) {
        return 0;
    }
    Ledger ledger(MOST_LIVE, MOST_STEPS, 1);
    for (std::uint32_t i = 0; i < 3; ++i) {
        ledger.add_device();
    }
    for (std::uint32_t process = 0; process < 2; ++process) {
        ledger.open_process();
        for (std::uint32_t i = 0; i < 3; ++i) {
            ledger.bind(process, i, i);
        }
        CoreMask few, some;
        few.words[0] = 1, some.words[0] = 7, some.words[3] = 8;
        ledger.define_cores(process, 1, few);
        ledger.define_cores(process, 2, some);
    }
    EventLines lines;
    allocations_left = (data[0] | data[1] << 8) - 1;
    for (std::size_t at = 2; at < size; at += 1 + sizeof(Event)) {
        Event event{};
        std::memcpy(&event, data + at + 1, std::min(size - at - 1, sizeof event));
        try {
            step(ledger, lines, data[at], event);
        } catch (const std::bad_alloc&) {
            law(allocations_left < 0);
        }
    }
    allocations_left = -1;
    check(ledger);
    check_copies(ledger, data, size);
    for (std::uint32_t process = 0; process < 2; ++process) {
        if (ledger.valid_process(process)) {
            ledger.release_process(process);
        }
    }
    check(ledger);
    law(ledger.live() == 0);
    return 0;
}
