#include "truncation_guard.hpp"

#include <signal.h>
#include <sys/mman.h>

#include <cstdint>

#include "memory_order.hpp"

namespace ttmem::probe {

namespace {

std::atomic<std::uintptr_t> guarded{0};
std::size_t guarded_size = 0;
struct sigaction before;

void on_bus_error(int number, siginfo_t* info, void* context) {
    const std::uintptr_t base = guarded.load(order::OBSERVE);
    const auto fault = reinterpret_cast<std::uintptr_t>(info->si_addr);
    if (base && fault >= base && fault - base < guarded_size) {
        mmap(reinterpret_cast<void*>(base), guarded_size, PROT_READ | PROT_WRITE,
             MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return;
    }
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(number, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(number);
    } else {
        sigaction(number, &before, nullptr);  // a fault is raised again, and handled as before
        if (info->si_code <= 0) {             // a signal that was sent is not
            raise(number);
        }
    }
}

}  // namespace

void stop_guarding() { guarded.store(0, order::PUBLISH); }

void guard_against_truncation(void* memory, std::size_t size) {
    guarded_size = size;
    guarded.store(reinterpret_cast<std::uintptr_t>(memory), order::PUBLISH);
    struct sigaction now;
    if (sigaction(SIGBUS, nullptr, &now) != 0 || (now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_bus_error)) {
        return;  // a forked child has it already
    }
    struct sigaction ours{};
    ours.sa_sigaction = on_bus_error;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
    sigaction(SIGBUS, &ours, &before);
}

}  // namespace ttmem::probe
