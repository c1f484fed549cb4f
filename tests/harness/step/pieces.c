/*
 * Pieces; see pieces.h.
 *
 * All pieces lie in one area of this program, so that the program's memory and code are within 2
 * GiB of each. What a library's instruction refers to by distance may be farther away; such an
 * instruction has no piece. Where memory cannot be both written and executed, no instruction has
 * one.
 */
#include "tests/harness/step/pieces.h"

#include <string.h>
#include <sys/mman.h>

#define PIECES_MAX (1u << 17) /* power of two */
#define AREA_SIZE  (8u << 20)
#define PIECE_MAX  128u /* bytes of code */
#define LEAVE_LEN  25u  /* what write_leave() writes */

#define BYTES(out, ...)                                                                            \
        write_bytes(out, (const unsigned char[]){__VA_ARGS__},                                     \
                sizeof((const unsigned char[]){__VA_ARGS__}))

static unsigned char area[AREA_SIZE] __attribute__((aligned(4096)));
static struct piece pieces[PIECES_MAX / 2];
static uint32_t places[PIECES_MAX]; /* a hash table of numbers of pieces, from 1 on */
static uint32_t pieces_count, area_used;

/* Where the next byte of a piece goes. */
struct out {
        unsigned char *at;
        const struct pieces_end *end;
        bool failed; /* a distance is too large */
};

static void write_bytes(struct out *out, const unsigned char *bytes, size_t count)
{
        memcpy(out->at, bytes, count);
        out->at += count;
}

static void write_word(struct out *out, uint64_t word)
{
        uint32_t half = (uint32_t)word;

        memcpy(out->at, &half, sizeof(half));
        out->at += sizeof(half);
}

/* @instruction_end: where the distance counts from. */
static int32_t distance_to(struct out *out, uintptr_t target, const unsigned char *instruction_end)
{
        int64_t distance = (int64_t)(target - (uintptr_t)instruction_end);

        if (distance != (int32_t)distance)
                out->failed = true;
        return (int32_t)distance;
}

/* @behind: bytes of the instruction after the distance. */
static void write_distance(struct out *out, const void *target, uint32_t behind)
{
        int32_t distance = distance_to(out, (uintptr_t)target, out->at + 4 + behind);

        write_word(out, (uint64_t)(uint32_t)distance);
}

static void write_hook(struct out *out)
{
        BYTES(out, 0xe9); /* jmp */
        write_distance(out, out->end->hook, 0);
}

/* Writes a jump that goes on to @next. */
static void write_leave(struct out *out, uintptr_t next)
{
        BYTES(out, 0xc7, 0x05); /* movl $, next */
        write_distance(out, out->end->next, 4);
        write_word(out, next);
        BYTES(out, 0xc7, 0x05); /* movl $, next + 4 */
        write_distance(out, (const char *)out->end->next + 4, 4);
        write_word(out, next >> 32);
        write_hook(out);
}

/* Writes what a call pushes; no flags change. */
static void write_push(struct out *out, uintptr_t address)
{
        BYTES(out, 0x48, 0x8d, 0x64, 0x24, 0xf8); /* lea -8(%rsp), %rsp */
        BYTES(out, 0xc7, 0x04, 0x24);             /* movl $, (%rsp) */
        write_word(out, address);
        BYTES(out, 0xc7, 0x44, 0x24, 0x04); /* movl $, 4(%rsp) */
        write_word(out, address >> 32);
}

/* Copies the instruction and corrects its distance to memory. */
static void write_copy(struct out *out, const unsigned char *from, const struct x86_instruction *is)
{
        unsigned char *to = out->at;
        int32_t distance;

        write_bytes(out, from, is->len);
        if (!is->disp_at)
                return;
        memcpy(&distance, from + is->disp_at, sizeof(distance));
        distance = distance_to(
                out, (uintptr_t)from + is->len + (uintptr_t)(intptr_t)distance, out->at);
        memcpy(to + is->disp_at, &distance, sizeof(distance));
}

/* Writes a jump to where the operand says. The piece loads the operand into rax, as `mov operand,
 * %rax` does, and notes it. */
static void write_indirect(
        struct out *out, const unsigned char *from, const struct x86_instruction *is)
{
        struct x86_instruction load = *is;
        unsigned char bytes[X86_LEN_MAX + 2] = {(unsigned char)(0x48 | (is->rex & 3)), 0x8b};
        uint32_t operand = is->len - (uint32_t)is->modrm_at;
        int32_t distance;

        memcpy(bytes + 2, from + is->modrm_at, operand);
        bytes[2] &= 0xc7;
        load.len = (uint8_t)(2 + operand);
        BYTES(out, 0x48, 0x89, 0x05); /* mov %rax, scratch */
        write_distance(out, out->end->scratch, 0);
        write_bytes(out, bytes, load.len);
        if (is->disp_at) {
                memcpy(&distance, from + is->disp_at, sizeof(distance));
                distance = distance_to(
                        out, (uintptr_t)from + is->len + (uintptr_t)(intptr_t)distance, out->at);
                memcpy(out->at - sizeof(distance), &distance, sizeof(distance));
        }
        BYTES(out, 0x48, 0x89, 0x05); /* mov %rax, next */
        write_distance(out, out->end->next, 0);
        BYTES(out, 0x48, 0x8b, 0x05); /* mov scratch, %rax */
        write_distance(out, out->end->scratch, 0);
        if (is->kind == X86_CALL_AT)
                write_push(out, (uintptr_t)from + is->len);
        write_hook(out);
}

/* Writes one round. */
static void write_repeat(
        struct out *out, const unsigned char *from, const struct x86_instruction *is)
{
        uint32_t len = 0;
        unsigned char bytes[X86_LEN_MAX];

        for (uint32_t i = 0; i < is->len; i++)
                if (from[i] != 0xf3)
                        bytes[len++] = from[i];
        BYTES(out, 0xe3, (unsigned char)(len + 4 + 2 + LEAVE_LEN)); /* jrcxz to the end */
        write_bytes(out, bytes, len);
        BYTES(out, 0x48, 0x8d, 0x49, 0xff); /* lea -1(%rcx), %rcx */
        BYTES(out, 0xe3, LEAVE_LEN);
        write_leave(out, (uintptr_t)from);
        write_leave(out, (uintptr_t)from + is->len);
}

static void write_piece(
        struct out *out, const unsigned char *from, const struct x86_instruction *is)
{
        uintptr_t behind = (uintptr_t)from + is->len;

        switch (is->kind) {
        case X86_PLAIN:
                write_copy(out, from, is);
                write_leave(out, behind);
                break;
        case X86_BRANCH:
                BYTES(out, (unsigned char)(0x70 | is->condition), LEAVE_LEN);
                write_leave(out, behind);
                write_leave(out, is->target);
                break;
        case X86_CALL:
                write_push(out, behind);
                write_leave(out, is->target);
                break;
        case X86_JUMP:
                write_leave(out, is->target);
                break;
        case X86_RETURN:
                BYTES(out, 0x8f, 0x05); /* pop next */
                write_distance(out, out->end->next, 0);
                write_hook(out);
                break;
        case X86_JUMP_AT:
        case X86_CALL_AT:
                write_indirect(out, from, is);
                break;
        case X86_REPEAT:
                write_repeat(out, from, is);
                break;
        case X86_OTHER:
                out->failed = true;
                break;
        }
}

static void make_piece(struct piece *ret, uintptr_t address, const struct pieces_end *end)
{
        const unsigned char *from = (const unsigned char *)address;
        struct x86_instruction is = x86_read(from);
        struct out out = {.at = area + area_used, .end = end};

        write_piece(&out, from, &is);
        *ret = (struct piece){
                .address = address, .len = is.len, .stores = true, .anywhere = is.anywhere};
        memcpy(ret->operands, is.operands, sizeof(ret->operands));
        if (out.failed)
                return;
        ret->code = area + area_used;
        ret->stores = is.stores;
        area_used = (uint32_t)(out.at - area);
}

/* Where the number of that piece stands, or belongs. */
PIECES_GENERAL static uint32_t *place_of(uintptr_t address)
{
        uint32_t at = (uint32_t)((address * UINT64_C(0x9e3779b97f4a7c15)) >> 40);

        while (places[at &= PIECES_MAX - 1] && pieces[places[at] - 1].address != address)
                at++;
        return &places[at];
}

PIECES_GENERAL struct piece *piece_known(uintptr_t address)
{
        uint32_t number = *place_of(address);

        return number ? &pieces[number - 1] : NULL;
}

struct piece *piece_of(uintptr_t address, const struct pieces_end *end)
{
        static struct piece none;
        struct piece *known = piece_known(address);

        if (known)
                return known;
        none = (struct piece){.stores = true, .anywhere = true};
        if (!pieces_count && mprotect(area, AREA_SIZE, PROT_READ | PROT_WRITE | PROT_EXEC))
                return &none; /* this system does not allow it */
        if (pieces_count == PIECES_MAX / 2 || AREA_SIZE - area_used < PIECE_MAX)
                return &none;
        make_piece(&pieces[pieces_count], address, end);
        *place_of(address) = ++pieces_count;
        return &pieces[pieces_count - 1];
}
