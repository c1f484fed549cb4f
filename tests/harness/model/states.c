/*
 * The states that a walk has met: what a state is, and tables of hashes.
 *
 * A state is the region, the store buffers, the notes, the fibre that runs, what is left of the
 * bounds, and for each fibre the hash of all that it has read. Two states with one hash count as
 * one: with 58 bits and ten million states, a walk leaves out a way once in some thousand walks.
 */
#include <stdlib.h>

#include "tests/harness/model/core.h"

struct table {
        uint64_t *entries; /* {hash : 58, preemptions left : 6}; 0: empty */
        uint64_t size, used;
};
static struct table states, ends, firsts;

static uint64_t state_hash(bool with_current, uint64_t left)
{
        uint64_t hash = model_memory_hash();
        uint32_t i, k;

        for (i = 0; i < FIBRE_CHECKER; i++) {
                struct fibre *fibre = &run.fibres[i];

                if (fibre->state == FIBRE_ABSENT)
                        continue;
                hash = model_mix(hash, fibre->history ^ fibre->state);
                for (k = 0; k < fibre->buffered; k++)
                        hash = model_mix(
                                model_mix(hash, fibre->buffer[k].offset), fibre->buffer[k].value);
        }
        for (i = 0; i < MODEL_NOTES; i++)
                hash = model_mix(hash, run.notes[i]);
        if (run.scenario->weak)
                hash = model_mix(hash, model_views_hash());
        return with_current ? model_mix(hash, (uint64_t)run.current << 32 | left) : hash;
}

static void table_grow(struct table *table)
{
        struct table old = *table;
        uint64_t i, at;

        table->size = old.size ? old.size * 4 : 1u << 14;
        table->entries = calloc(table->size, sizeof *table->entries);
        if (!table->entries)
                abort();
        for (i = 0; i < old.size; i++) {
                if (!old.entries[i])
                        continue;
                for (at = (old.entries[i] >> 6) & (table->size - 1); table->entries[at];
                        at = (at + 1) & (table->size - 1)) {
                }
                table->entries[at] = old.entries[i];
        }
        free(old.entries);
}

/* Enters a state. Return: whether the table had it with @left or more. */
static bool table_known(struct table *table, uint64_t hash, uint64_t left)
{
        uint64_t key = (hash | 64) & ~UINT64_C(63), at;

        if (table->used * 2 >= table->size)
                table_grow(table);
        for (at = (key >> 6) & (table->size - 1); table->entries[at];
                at = (at + 1) & (table->size - 1)) {
                if ((table->entries[at] & ~UINT64_C(63)) != key)
                        continue;
                if ((table->entries[at] & 63) >= left)
                        return true;
                table->entries[at] = key | left;
                return false;
        }
        table->entries[at] = key | left;
        table->used++;
        return false;
}

bool model_state_known(uint64_t left, uint64_t preemptions_left)
{
        return table_known(&states, state_hash(true, left), preemptions_left);
}

bool model_end_known(void)
{
        return table_known(&ends, state_hash(false, 0), 0);
}

bool model_first_time(uint64_t hash)
{
        return run.directed || !table_known(&firsts, hash, 0);
}

void model_states_forget(void)
{
        free(states.entries);
        free(ends.entries);
        free(firsts.entries);
        states = ends = firsts = (struct table){0};
}

void model_states_count(uint64_t *ret_states, uint64_t *ret_ends)
{
        *ret_states = states.used;
        *ret_ends = ends.used;
}
