/* What an x86-64 instruction is; see x86.h. */
#include "x86.h"

#include <string.h>

#define SIB_NO_INDEX 4u
#define SIB_RSP      4u
#define RM_SIB       4u
#define RM_DISP      5u
#define REX_W        8u
#define REX_X        2u
#define REX_B        1u

/* What an opcode has behind it, and does. */
enum {
        MODRM = 1,
        IMM8 = 2,
        IMM32 = 4,   /* 16 bits with the prefix 66 */
        IMM64 = 8,   /* with REX.W, else as IMM32 */
        WRITES = 16, /* its operand, when that is in memory */
        FAR = 32,    /* also beyond its operand: by a bit number */
        STRING = 64,
        UNKNOWN = 128
};

struct reader {
        const unsigned char *at;
        uint32_t len; /* read */
        bool word, repeat, other_repeat, segment, vector;
        uint8_t map, opcode; /* 0: opcodes of one byte */
        unsigned form;
        struct x86_instruction *ret;
};

static unsigned form_of_one_byte(uint8_t opcode)
{
        static const uint8_t arithmetic[8] = {
                MODRM | WRITES, MODRM | WRITES, MODRM, MODRM, IMM8, IMM32, UNKNOWN, UNKNOWN};

        switch (opcode) {
        case 0x00 ... 0x37:
                return arithmetic[opcode & 7];
        case 0x38 ... 0x3f: /* cmp */
                return arithmetic[opcode & 7] & ~(unsigned)WRITES;
        case 0x50 ... 0x5f: /* push, pop */
        case 0x90 ... 0x99:
        case 0x9e ... 0x9f:
        case 0xc9: /* leave */
        case 0xf5:
        case 0xf8 ... 0xf9:
        case 0xfc ... 0xfd:
                return 0;
        case 0x63:
        case 0x84 ... 0x85: /* test */
        case 0x8a ... 0x8b:
        case 0x8d: /* lea */
                return MODRM;
        case 0x86 ... 0x89:
        case 0x8f:
        case 0xd0 ... 0xd3:
        case 0xd8 ... 0xdf:
        case 0xf6 ... 0xf7:
        case 0xfe ... 0xff:
                return MODRM | WRITES;
        case 0x68:
        case 0xa9:
                return IMM32;
        case 0x69:
                return MODRM | IMM32;
        case 0x6a:
        case 0xa8:
        case 0xb0 ... 0xb7:
                return IMM8;
        case 0x6b:
                return MODRM | IMM8;
        case 0x80:
        case 0x83:
        case 0xc0 ... 0xc1:
        case 0xc6:
                return MODRM | IMM8 | WRITES;
        case 0x81:
        case 0xc7:
                return MODRM | IMM32 | WRITES;
        case 0xa4 ... 0xa5: /* movs */
        case 0xaa ... 0xab: /* stos */
                return STRING;
        case 0xb8 ... 0xbf:
                return IMM64;
        default:
                return UNKNOWN;
        }
}

/* Behind 0f, and in the first map of VEX and EVEX. */
static unsigned form_of_two_bytes(uint8_t opcode)
{
        switch (opcode) {
        case 0x11:
        case 0x13:
        case 0x17:
        case 0x29:
        case 0x2b:
        case 0x7e ... 0x7f:
        case 0x90 ... 0x9f: /* setcc; kmov */
        case 0xa5:
        case 0xae:
        case 0xb0 ... 0xb1: /* cmpxchg */
        case 0xc0 ... 0xc1: /* xadd */
        case 0xc3:
        case 0xc7: /* cmpxchg16b */
        case 0xd6:
        case 0xe7:
                return MODRM | WRITES;
        case 0xab:
        case 0xb3:
        case 0xbb:
        case 0xf7: /* to where rdi points */
                return MODRM | WRITES | FAR;
        case 0xa4:
        case 0xac:
        case 0xba:
                return MODRM | IMM8 | WRITES;
        case 0x0d:
        case 0x10:
        case 0x12:
        case 0x14 ... 0x16:
        case 0x18 ... 0x1f: /* hints, nop, endbr64 */
        case 0x28:
        case 0x2a:
        case 0x2c ... 0x2f:
        case 0x40 ... 0x6f: /* cmov and more */
        case 0x74 ... 0x76:
        case 0x7c ... 0x7d:
        case 0xa3:
        case 0xaf:
        case 0xb6 ... 0xb8: /* movzx, popcnt */
        case 0xbc ... 0xbf:
        case 0xd0 ... 0xd5:
        case 0xd7 ... 0xe6:
        case 0xe8 ... 0xf6:
        case 0xf8 ... 0xfe:
                return MODRM;
        case 0x70 ... 0x73:
        case 0xc2:
        case 0xc4 ... 0xc6:
                return MODRM | IMM8;
        case 0x77:          /* emms, vzeroupper */
        case 0xc8 ... 0xcf: /* bswap */
                return 0;
        default:
                return UNKNOWN;
        }
}

static unsigned form_of(const struct reader *reader)
{
        switch (reader->map) {
        case 0:
                return reader->vector ? UNKNOWN : form_of_one_byte(reader->opcode);
        case 1:
                return form_of_two_bytes(reader->opcode);
        case 2:
                return MODRM | WRITES;
        case 3:
                return MODRM | IMM8 | WRITES;
        default:
                return UNKNOWN;
        }
}

/* Prefixes, and the opcode with its map. */
static void read_opcode(struct reader *reader)
{
        static const uint8_t vector_len[] = {
                [0x62 - 0x62] = 4, [0xc4 - 0x62] = 3, [0xc5 - 0x62] = 2};
        uint8_t byte;

        for (;; reader->len++) {
                byte = reader->at[reader->len];
                reader->word |= byte == 0x66;
                reader->repeat |= byte == 0xf3;
                reader->other_repeat |= byte == 0xf2;
                reader->segment |= byte == 0x64 || byte == 0x65;
                if (byte != 0x66 && byte != 0xf3 && byte != 0xf2 && byte != 0x64 && byte != 0x65 &&
                        byte != 0xf0 && byte != 0x2e && byte != 0x3e)
                        break;
                if (reader->len > 8)
                        break;
        }
        if ((byte & 0xf0) == 0x40) {
                reader->ret->rex = byte;
                byte = reader->at[++reader->len];
        }
        if (byte == 0xc4 || byte == 0xc5 || byte == 0x62) {
                reader->vector = true;
                reader->map =
                        byte == 0xc5 ? 1 : reader->at[reader->len + 1] & (byte == 0xc4 ? 31 : 7);
                reader->len += vector_len[byte - 0x62];
        } else if (byte == 0x0f) {
                byte = reader->at[++reader->len];
                reader->map = byte == 0x38 ? 2 : byte == 0x3a ? 3 : 1;
                reader->len += reader->map > 1;
        }
        reader->opcode = reader->at[reader->len++];
        reader->form = form_of(reader);
}

static void read_operand(struct reader *reader)
{
        uint8_t modrm = reader->at[reader->len], rm = modrm & 7, sib = 0;
        bool stack;

        reader->ret->modrm_at = (uint8_t)reader->len++;
        if (modrm >= 0xc0) {
                reader->form &= ~(unsigned)(WRITES | (reader->opcode == 0xf7 ? 0 : FAR));
                return;
        }
        if (rm == RM_SIB)
                sib = reader->at[reader->len++];
        if (modrm < 0x40 && rm == RM_DISP)
                reader->ret->disp_at = (uint8_t)reader->len;
        if (modrm >= 0x80 || (modrm < 0x40 && (rm == RM_SIB ? sib & 7 : rm) == RM_DISP))
                reader->len += 4;
        else if (modrm >= 0x40)
                reader->len += 1;
        stack = rm == RM_SIB && (sib & 7) == SIB_RSP && (sib >> 3 & 7) == SIB_NO_INDEX &&
                !(reader->ret->rex & (REX_X | REX_B)) && !reader->vector && !reader->segment;
        if (stack && !(reader->form & FAR))
                reader->form &= ~(unsigned)WRITES;
}

/* Opcodes that are several instructions, told apart by a field of the byte behind. */
static void read_group(struct reader *reader)
{
        uint8_t field = reader->at[reader->ret->modrm_at] >> 3 & 7;

        switch (reader->opcode) {
        case 0x80 ... 0x83:
                if (field == 7) /* cmp */
                        reader->form &= ~(unsigned)WRITES;
                break;
        case 0x8f:
        case 0xc6 ... 0xc7:
                if (field)
                        reader->form = UNKNOWN;
                break;
        case 0xf6 ... 0xf7:
                if (field < 2) /* test */
                        reader->form |= reader->opcode == 0xf6 ? IMM8 : IMM32;
                if (field < 2 || field > 3)
                        reader->form &= ~(unsigned)WRITES;
                break;
        case 0xfe:
                if (field > 1)
                        reader->form = UNKNOWN;
                break;
        case 0xff:
                if (field == 2 || field == 4)
                        reader->ret->kind = field == 2 ? X86_CALL_AT : X86_JUMP_AT;
                if (field == 3 || field == 5 || field == 7 || (field != 6 && reader->word) ||
                        (field != 6 && field > 1 && reader->segment))
                        reader->form = UNKNOWN;
                if (field > 1)
                        reader->form &= ~(unsigned)WRITES;
                break;
        default:
                break;
        }
}

/* What goes elsewhere by a distance, or returns. False: something else. */
static bool read_branch(struct reader *reader)
{
        struct x86_instruction *ret = reader->ret;
        bool two = reader->map == 1;
        uint8_t opcode = reader->opcode;
        int32_t distance;

        ret->condition = opcode & 15;
        if (reader->vector || reader->word)
                return false;
        if (two ? (opcode & 0xf0) == 0x80 : (opcode & 0xf0) == 0x70)
                ret->kind = X86_BRANCH;
        else if (!two && (opcode == 0xe9 || opcode == 0xeb))
                ret->kind = X86_JUMP;
        else if (!two && opcode == 0xe8)
                ret->kind = X86_CALL;
        else if (!two && opcode == 0xc3)
                ret->kind = X86_RETURN;
        else
                return false;
        if (ret->kind == X86_RETURN) {
                ret->len = (uint8_t)reader->len;
                return true;
        }
        if (opcode == 0xeb || (!two && ret->kind == X86_BRANCH)) {
                distance = (int8_t)reader->at[reader->len];
                reader->len += 1;
        } else {
                memcpy(&distance, reader->at + reader->len, sizeof(distance));
                reader->len += 4;
        }
        ret->len = (uint8_t)reader->len;
        ret->target = (uintptr_t)reader->at + reader->len + (uintptr_t)(intptr_t)distance;
        return true;
}

struct x86_instruction x86_read(const unsigned char *at)
{
        struct x86_instruction ret = {.kind = X86_PLAIN};
        struct reader reader = {.at = at, .ret = &ret};

        read_opcode(&reader);
        if (read_branch(&reader))
                return ret;
        if (reader.form & MODRM) {
                read_operand(&reader);
                if (!reader.map)
                        read_group(&reader);
        }
        if (reader.form & STRING) {
                if (reader.repeat)
                        ret.kind = X86_REPEAT;
                reader.form |= WRITES;
        }
        reader.len += reader.form & IMM8 ? 1 : 0;
        if (reader.form & IMM64 && ret.rex & REX_W)
                reader.len += 8;
        else if (reader.form & (IMM32 | IMM64))
                reader.len += reader.word ? 2 : 4;
        ret.stores = (reader.form & (WRITES | FAR)) != 0;
        ret.len = (uint8_t)reader.len;
        if (reader.form & UNKNOWN || reader.len > X86_LEN_MAX ||
                (reader.form & STRING && (reader.other_repeat || reader.segment)))
                ret.kind = X86_OTHER;
        return ret;
}
