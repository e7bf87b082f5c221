// Files are opened and written inside other people's calls: this must neither raise a signal nor end the thread.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <time.h>

namespace ttmem::probe {

// A signal that our calls could raise: a file size limit, a pipe that nobody reads.
class SignalBlocked {
public:
    explicit SignalBlocked(int number) {
        sigemptyset(&signal_);
        sigaddset(&signal_, number);
        sigset_t pending;
        sigpending(&pending);
        already_pending_ = sigismember(&pending, number);
        pthread_sigmask(SIG_BLOCK, &signal_, &before_);
    }
    ~SignalBlocked() {
        const timespec at_once{0, 0};
        if (!already_pending_) {
            sigtimedwait(&signal_, nullptr, &at_once);
        }
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    SignalBlocked(const SignalBlocked&) = delete;
    SignalBlocked& operator=(const SignalBlocked&) = delete;

private:
    sigset_t signal_, before_;
    bool already_pending_;
};

// pthread_cancel() ends a thread in calls that we make, with an exception that must not be caught.
class NoCancellation {
public:
    NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
    ~NoCancellation() { pthread_setcancelstate(before_, nullptr); }
    NoCancellation(const NoCancellation&) = delete;
    NoCancellation& operator=(const NoCancellation&) = delete;

private:
    int before_;
};

}  // namespace ttmem::probe
