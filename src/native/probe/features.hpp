// What can be observed in this runtime. A missing symbol switches off one feature, with one line, here and in the
// region.
#pragma once

#include "region.hpp"
#include "runtime.hpp"

namespace ttmem::probe {

// A static object next to the hooks of a feature registers what they need. Files with hooks of the same feature use the
// same name; it works if the runtime has all of their symbols.
class Feature {
public:
    template <typename... Symbols>
    explicit Feature(const char* name, Symbols&... symbols) : name_(name), symbols_{&symbols...} {
        static_assert(sizeof...(symbols) <= MOST_SYMBOLS, "split it in two of the same name");
        *last_ = this;
        last_ = &next_;
    }
    Feature(const Feature&) = delete;
    Feature& operator=(const Feature&) = delete;

    static Feature* first() { return first_; }
    Feature* next() const { return next_; }
    const char* name() const { return name_; }
    const char* first_missing() const;  // null: none is missing

private:
    static constexpr std::size_t MOST_SYMBOLS = 6;
    // Constant initialisers, so these exist before the first object of any file is constructed.
    static inline Feature* first_ = nullptr;
    static inline Feature** last_ = &first_;

    const char* name_;
    Symbol* symbols_[MOST_SYMBOLS];
    Feature* next_ = nullptr;
};

void look_for_features(Region& region);

// A feature whose symbols exist turned out not to work.
void switch_off(const char* feature, const char* why);

}  // namespace ttmem::probe
