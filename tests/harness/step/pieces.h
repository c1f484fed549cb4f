/*
 * Pieces: single instructions of this process, copied so that each, when executed, is followed by
 * a jump to one place, with the address of what comes next noted.
 *
 * A piece is the instruction itself, on the registers and the memory that it has anyway; only what
 * depends on where it stands is written anew: distances to memory, jumps, and the address that a
 * call pushes, which stays that of the original. So code that runs piece by piece does what it
 * does in its own place, and whoever gets the jump sees the processor between two instructions.
 *
 * Always true: a piece changes no register and no memory that its instruction does not change, but
 * the note; `rep movs` and `rep stos` are one round a piece, as the processor's trap flag sees
 * them.
 */
#ifndef SB_TESTS_PIECES_H
#define SB_TESTS_PIECES_H

#include <stdbool.h>
#include <stdint.h>

struct piece {
        uintptr_t address;
        const unsigned char *code; /* NULL: nobody knows how to copy this one */
        bool stores;               /* perhaps, into memory other than the stack */
};

/* Where pieces put the next address, and what they go on to. */
struct pieces_end {
        uint64_t *next, *scratch;
        const char *hook;
};

/* For the instruction at @address; always the same @end. */
const struct piece *piece_of(uintptr_t address, const struct pieces_end *end);

#endif
