/*
 * Exceptions that leave callbacks: of sb_update(), of sb_transact() and of sb_wait_until(). Run by
 * api-heap.
 *
 *      throw COUNT        an agentd serves the bus $STATEBUS
 *
 * A guard, a transaction or a watch that stayed behind would end this: a bus has 65,536 guards and
 * 32 cuts, and its memory fewer watches.
 */
#include <cstdio>
#include <cstdlib>

#include "libclient/statebus.h"

namespace
{
const sb_bytes key = {"throw", 5}, value = {"value", 5}, keys[] = {key, {"nothing", 7}, key};

struct left {
        int at;
};

int throw_from_update(void *argument, const sb_guard *, sb_bytes *)
{
        throw left{*static_cast<int *>(argument)};
}

int throw_from_transaction(void *argument, sb_txn *txn)
{
        sb_guard guard = sb_guard();

        if (sb_txn_set(txn, key, value) != 0 || sb_txn_get(txn, key, &guard) != 0)
                return -1;
        sb_guard_release(&guard);
        throw left{*static_cast<int *>(argument)};
}

int throw_from_predicate(void *argument, const sb_guard *guards, size_t count)
{
        if (count != 3 || !guards[0].bus || guards[1].bus || !guards[2].bus)
                return -1;
        throw left{*static_cast<int *>(argument)};
}
} // namespace

int main(int, char **argv)
{
        sb_options options = {sizeof(options), nullptr, SB_PEER, 0, 0};
        sb_bus *bus = nullptr;
        int count = std::atoi(argv[1]), caught = 0;
        uint64_t rev = 0;

        if (sb_open(&options, &bus) != 0 || sb_set(bus, key, value, nullptr, &rev) != 0)
                return 1;
        for (int i = 0; i < count; i++) {
                try {
                        std::printf("update: %d\n",
                                sb_update(bus, key, throw_from_update, &i, nullptr, nullptr));
                        return 1;
                } catch (const left &found) {
                        caught += found.at == i;
                }
                try {
                        std::printf("transact: %d\n", sb_transact(bus, SB_SERIALIZABLE,
                                                              throw_from_transaction, &i, nullptr));
                        return 1;
                } catch (const left &found) {
                        caught += found.at == i;
                }
                try {
                        std::printf("wait: %d\n",
                                sb_wait_until(bus, keys, 3, throw_from_predicate, &i, SB_FOREVER));
                        return 1;
                } catch (const left &found) {
                        caught += found.at == i;
                }
        }
        sb_guard guard = sb_guard();
        if (caught != 3 * count || sb_get(bus, key, &guard) != 0 || guard.rev != rev)
                return 1;
        sb_guard_release(&guard);
        sb_close(bus);
        std::printf("caught %d\n", caught);
        return 0;
}
