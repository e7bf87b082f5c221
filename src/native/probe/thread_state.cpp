#include "thread_state.hpp"

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace ttmem::probe {

namespace {

// One pointer of static TLS, for which there is space even if dlopen() loads the library.
__thread ThreadState* own __attribute__((tls_model("initial-exec"))) = nullptr;

std::atomic<std::uint16_t> threads{0};
pthread_key_t at_thread_end;
pthread_once_t key_made = PTHREAD_ONCE_INIT;
bool has_key = false;  // a process has 1,024 of them; without one, what a thread had is never freed

void forget(void* state) {
    own = nullptr;  // destructors that run after this one may still free buffers: they start a new state
    std::free(state);
}

ThreadState* make() {
    pthread_once(&key_made, [] { has_key = pthread_key_create(&at_thread_end, forget) == 0; });
    void* memory = nullptr;
    if (posix_memalign(&memory, alignof(ThreadState), sizeof(ThreadState)) != 0) {
        return nullptr;
    }
    std::memset(memory, 0, sizeof(ThreadState));
    own = static_cast<ThreadState*>(memory);
    own->number = ++threads;
    if (has_key) {
        pthread_setspecific(at_thread_end, memory);
    }
    return own;
}

}  // namespace

ThreadState* thread_state() { return own ? own : make(); }

void forget_thread() {
    if (own) {
        const std::uint16_t number = own->number;
        std::memset(static_cast<void*>(own), 0, sizeof *own);
        own->number = number;
    }
}

}  // namespace ttmem::probe
