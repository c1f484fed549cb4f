/*
 * What an x86-64 instruction is, as far as a copy of it elsewhere requires: its length, what it
 * refers to by its own address, where it goes on, and whether it may store.
 *
 * Always true: an instruction that is not surely understood is X86_OTHER; `stores` is false only
 * where it certainly writes nothing but registers and the stack, and what it accesses in memory is
 * among its `operands`, unless it is `anywhere`.
 */
#ifndef SB_TESTS_X86_H
#define SB_TESTS_X86_H

#include <stdbool.h>
#include <stdint.h>

#define X86_LEN_MAX 15

enum x86_kind {
        X86_OTHER,
        X86_PLAIN,   /* goes on after itself */
        X86_JUMP,    /* to target */
        X86_BRANCH,  /* to target, or on after itself: by `condition` */
        X86_CALL,    /* target */
        X86_RETURN,  /* without operand */
        X86_JUMP_AT, /* to what its operand says */
        X86_CALL_AT,
        X86_REPEAT, /* rep movs, rep stos */
};

#define X86_OPERANDS 2
#define X86_NONE     0xff /* no register */
#define X86_ADDRESS  16   /* the address of the next instruction, as a base */

/* A place in memory: base + index * scale + distance. Registers as the processor numbers them. */
struct x86_operand {
        uint8_t base, index, scale, size; /* size 0: there is none */
        int64_t distance;
};

struct x86_instruction {
        enum x86_kind kind;
        uint8_t len;
        uint8_t rex;
        uint8_t condition;
        uint8_t modrm_at; /* 0: none */
        uint8_t disp_at;  /* of a displacement relative to the instruction's end; 0: none */
        bool stores;      /* perhaps: into memory other than the stack */
        bool anywhere;    /* it may access memory that is not among its operands */
        struct x86_operand operands[X86_OPERANDS];
        uintptr_t target;
};

struct x86_instruction x86_read(const unsigned char *at);

#endif
