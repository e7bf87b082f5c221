// Pages of a journal, and the journal of a ledger (ttmem/ledger/journal.py).
#pragma once

#include "rows.hpp"

#include <cstdint>
#include <vector>

#include "journal.hpp"

namespace ttmem {

constexpr std::uint64_t NO_POSITION = ~std::uint64_t{0};

// Creates the type `Page`; null, with an exception, if that fails.
PyObject* make_page_type();

// The records of an object, which keeps them: bytes, or a sealed page. False, with an exception, if it is neither.
bool add_pieces(PyObject* item, std::vector<Piece>& pieces);

// Events of one process that the ledger has accepted: bytes `begin` to `end` of a bytes object.
struct Batch {
    std::uint32_t account;
    std::uint64_t arrived, position;
    PyObject* data;
    Py_ssize_t begin, end;
};

// Where the calls that change a ledger are recorded. Most batches go to the page that the receiver named last, without
// asking it again: a server's loop has 30,000 of them in a second.
class Journal {
public:
    Journal() = default;
    ~Journal() { write_to(nullptr); }
    Journal(const Journal&) = delete;
    Journal& operator=(const Journal&) = delete;

    explicit operator bool() const { return receiver_; }
    // Null: nowhere.
    void write_to(PyObject* receiver);
    // The receiver gets the next batch, even if the page takes more.
    void forget_page() { Py_CLEAR(page_); }
    // Another process may get this account.
    void forget(std::uint32_t account);
    // `odd`: some of the events may look like control records. False, with an exception, if the receiver raised one.
    bool add(Batch batch, bool odd);
    // Memory ran out in the middle of a call.
    void interrupted();
    int visit(visitproc visit, void* arg) const;

private:
    bool ask(const Batch& batch);

    PyObject* receiver_ = nullptr;
    PyObject* page_ = nullptr;             // which takes batches of accounts that have a serial number
    std::vector<std::uint64_t> serials_;  // by account; 0: the receiver has not told it
};

}  // namespace ttmem
