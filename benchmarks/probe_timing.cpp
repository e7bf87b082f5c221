// Times the hooks from inside: one event at a time, and sixteen threads at a steady rate.
#include <algorithm>
#include <chrono>
#include <thread>

#include "tt_metal.hpp"

using namespace tt::tt_metal;
using Clock = std::chrono::steady_clock;

namespace {

double nanoseconds(Clock::duration time) { return std::chrono::duration<double, std::nano>(time).count(); }

// The clock itself costs about 20 ns; its own median is taken off.
double clock_cost() {
    std::vector<double> times(10'001);
    for (double& time : times) {
        const auto before = Clock::now();
        time = nanoseconds(Clock::now() - before);
    }
    std::nth_element(times.begin(), times.begin() + 5'000, times.end());
    return times[5'000];
}

Buffer made(void* mesh, std::uint64_t number) {
    Buffer buffer{};
    buffer.where = static_cast<distributed::MeshDevice*>(mesh);
    buffer.bytes = 4096;
    buffer.type = BufferType::DRAM;
    buffer.number = number;
    buffer.per_bank = 512;
    buffer.place = 4096;
    return buffer;
}

}  // namespace

// out: median and 99th percentile of one event, in ns. Half are allocations, half frees, 64 alive at a time.
extern "C" void time_events(void* mesh, std::uint64_t first, std::uint64_t rounds, double* out) {
    GraphTracker tracker;
    std::vector<double> times;
    times.reserve(rounds * 128);
    const double clock = clock_cost();
    for (std::uint64_t round = 0; round < rounds; ++round) {
        std::vector<Buffer> buffers;
        for (std::uint64_t i = 0; i < 64; ++i) {
            buffers.push_back(made(mesh, first + round * 64 + i));
        }
        for (Buffer& buffer : buffers) {
            const auto before = Clock::now();
            tracker.track_allocate(&buffer);
            times.push_back(nanoseconds(Clock::now() - before) - clock);
        }
        for (Buffer& buffer : buffers) {
            const auto before = Clock::now();
            tracker.track_deallocate(&buffer);
            times.push_back(nanoseconds(Clock::now() - before) - clock);
        }
    }
    std::sort(times.begin(), times.end());
    out[0] = times[times.size() / 2];
    out[1] = times[times.size() * 99 / 100];
}

// The mean of one event in a loop, in ns, the best of `rounds`: where one alone is below what the clock can see.
extern "C" double time_loop(void* mesh, std::uint64_t rounds) {
    GraphTracker tracker;
    Buffer buffer = made(mesh, 1);
    constexpr int PAIRS = 10000;
    double best = 1e9;
    for (std::uint64_t round = 0; round < rounds; ++round) {
        const auto before = Clock::now();
        for (int i = 0; i < PAIRS; ++i) {
            tracker.track_allocate(&buffer);
            tracker.track_deallocate(&buffer);
        }
        best = std::min(best, nanoseconds(Clock::now() - before) / (2 * PAIRS));
    }
    return best;
}

// Each thread: `rate` events a second, in portions of 100.
extern "C" void steady(void* mesh, int threads, double seconds, double rate) {
    std::vector<std::thread> all;
    for (int number = 0; number < threads; ++number) {
        all.emplace_back([=] {
            GraphTracker tracker;
            const auto start = Clock::now();
            const auto portions = static_cast<std::uint64_t>(seconds * rate / 100);
            for (std::uint64_t portion = 0; portion < portions; ++portion) {
                std::this_thread::sleep_until(start + std::chrono::duration<double>(portion * 100 / rate));
                for (std::uint64_t i = 0; i < 50; ++i) {
                    const std::uint64_t id = (static_cast<std::uint64_t>(number) << 40) + portion * 50 + i;
                    Buffer buffer = made(mesh, id);
                    tracker.track_allocate(&buffer);
                    tracker.track_deallocate(&buffer);
                }
            }
        });
    }
    for (std::thread& one : all) {
        one.join();
    }
}
