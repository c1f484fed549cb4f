/*
 * Pieces: single instructions of this process, copied so that each, when executed, notes the
 * address of the next instruction and jumps to one hook.
 *
 * A piece is the instruction itself, on the registers and the memory that it uses anyway. Only what
 * depends on its address is written anew: distances to memory, jumps, and the address that a call
 * pushes, which stays that of the original. So code that runs piece by piece does what it does at
 * its own address, and the hook sees the processor between two instructions.
 *
 * Always true: a piece changes no register and no memory that its instruction does not change,
 * except the note; `rep movs` and `rep stos` take one round per piece, as the processor's trap flag
 * shows them.
 */
#ifndef SB_TESTS_PIECES_H
#define SB_TESTS_PIECES_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/harness/step/x86.h"

struct piece {
        uintptr_t address;
        const unsigned char *code; /* NULL: it cannot be copied */
        struct piece *then;        /* the one that came next, last time; NULL: not known */
        uint8_t len;
        bool stores;   /* perhaps: into memory other than the stack */
        bool anywhere; /* it may access memory that is not among its operands */
        struct x86_operand operands[X86_OPERANDS];
};

/* Where pieces put the next address, and where they jump to. */
struct pieces_end {
        uint64_t *next, *scratch;
        const char *hook;
};

/* Code that leaves the operation's vector registers as they are. */
#define PIECES_GENERAL __attribute__((target("general-regs-only")))

/* For the instruction at @address; always the same @end. */
struct piece *piece_of(uintptr_t address, const struct pieces_end *end);
/* The same; NULL: there is none yet. */
PIECES_GENERAL struct piece *piece_known(uintptr_t address);

#endif
