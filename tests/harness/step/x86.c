/* What an x86-64 instruction is, read by Zydis; see x86.h. */
#include "tests/harness/step/x86.h"

#include <Zydis/Zydis.h>
#include <string.h>

struct reading {
        ZydisDecodedInstruction is;
        ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
        const unsigned char *at;
};

/* Whether it takes a bit of memory by a number in a register, which may lie beyond the operand. */
static bool is_bit_by_number(const struct reading *reading)
{
        ZydisMnemonic what = reading->is.mnemonic;

        return (what == ZYDIS_MNEMONIC_BT || what == ZYDIS_MNEMONIC_BTS ||
                       what == ZYDIS_MNEMONIC_BTR || what == ZYDIS_MNEMONIC_BTC) &&
               reading->operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER;
}

/* Whether the instruction writes an operand in memory that is not surely on the stack. */
static bool stores(const struct reading *reading)
{
        for (uint32_t i = 0; i < reading->is.operand_count; i++) {
                const ZydisDecodedOperand *operand = &reading->operands[i];
                bool by_number = i == 0 && is_bit_by_number(reading);

                if (operand->type != ZYDIS_OPERAND_TYPE_MEMORY ||
                        !(operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
                        continue;
                if (operand->mem.base != ZYDIS_REGISTER_RSP ||
                        operand->mem.index != ZYDIS_REGISTER_NONE ||
                        operand->mem.segment != ZYDIS_REGISTER_SS || by_number)
                        return true;
        }
        return false;
}

static uint8_t register_number(ZydisRegister name)
{
        if (name == ZYDIS_REGISTER_NONE)
                return X86_NONE;
        return name == ZYDIS_REGISTER_RIP ? X86_ADDRESS : (uint8_t)ZydisRegisterGetId(name);
}

/* What the instruction loads and stores. A bit of a bit string by its number may lie anywhere, and
 * memory that a thread has for itself is no operand. */
static void read_operands(const struct reading *reading, struct x86_instruction *ret)
{
        uint32_t count = 0;

        for (uint32_t i = 0; i < reading->is.operand_count; i++) {
                const ZydisDecodedOperand *operand = &reading->operands[i];

                if (operand->type != ZYDIS_OPERAND_TYPE_MEMORY ||
                        operand->mem.type == ZYDIS_MEMOP_TYPE_AGEN ||
                        operand->mem.segment == ZYDIS_REGISTER_FS ||
                        operand->mem.segment == ZYDIS_REGISTER_GS)
                        continue;
                if (count == X86_OPERANDS || operand->mem.type != ZYDIS_MEMOP_TYPE_MEM ||
                        operand->size == 0 || operand->size > 255 * 8 ||
                        is_bit_by_number(reading)) {
                        ret->anywhere = true;
                        return;
                }
                ret->operands[count++] = (struct x86_operand){
                        .base = register_number(operand->mem.base),
                        .index = register_number(operand->mem.index),
                        .scale = operand->mem.scale,
                        .size = (uint8_t)(operand->size / 8),
                        .distance =
                                operand->mem.disp.has_displacement ? operand->mem.disp.value : 0};
        }
}

/* A jump, call or return within the program; anything else that goes elsewhere is X86_OTHER. */
static enum x86_kind branch_kind(const struct reading *reading, uintptr_t *ret_target)
{
        const ZydisDecodedInstruction *is = &reading->is;
        bool relative = is->raw.imm[0].is_relative, jump = is->mnemonic == ZYDIS_MNEMONIC_JMP;

        if (is->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR ||
                is->attributes & (ZYDIS_ATTRIB_HAS_OPERANDSIZE | ZYDIS_ATTRIB_HAS_SEGMENT_FS |
                                         ZYDIS_ATTRIB_HAS_SEGMENT_GS))
                return X86_OTHER;
        if (is->mnemonic == ZYDIS_MNEMONIC_RET)
                return is->raw.imm[0].size ? X86_OTHER : X86_RETURN;
        if (relative)
                *ret_target = (uintptr_t)reading->at + is->length +
                              (uintptr_t)(intptr_t)is->raw.imm[0].value.s;
        if (jump || is->mnemonic == ZYDIS_MNEMONIC_CALL)
                return relative ? (jump ? X86_JUMP : X86_CALL) : (jump ? X86_JUMP_AT : X86_CALL_AT);
        /* Not loop and jrcxz, which test no flag. */
        if (is->meta.category == ZYDIS_CATEGORY_COND_BR &&
                (is->opcode & 0xf0) == (is->opcode_map == ZYDIS_OPCODE_MAP_0F ? 0x80 : 0x70))
                return X86_BRANCH;
        return X86_OTHER;
}

/* Copies of movs and stos go round by round; others end by flags, too, or compilers never write
 * them. */
static enum x86_kind string_kind(const struct reading *reading)
{
        const ZydisDecodedInstruction *is = &reading->is;
        bool repeats = false, moves = is->opcode == 0xa4 || is->opcode == 0xa5 ||
                                      is->opcode == 0xaa || is->opcode == 0xab;

        for (uint32_t i = 0; i < is->raw.prefix_count; i++) {
                uint8_t prefix = is->raw.prefixes[i].value;

                repeats |= prefix == 0xf3;
                if (prefix != 0xf3 && prefix != 0x66 && (prefix & 0xf0) != 0x40)
                        return X86_OTHER;
        }
        if (!repeats)
                return X86_PLAIN;
        return moves ? X86_REPEAT : X86_OTHER;
}

static enum x86_kind kind_of(const struct reading *reading, uintptr_t *ret_target)
{
        const ZydisDecodedInstruction *is = &reading->is;

        if (is->meta.branch_type != ZYDIS_BRANCH_TYPE_NONE || is->raw.imm[0].is_relative)
                return branch_kind(reading, ret_target);
        if (is->address_width != 64)
                return X86_OTHER;
        switch (is->meta.category) {
        case ZYDIS_CATEGORY_STRINGOP:
                return string_kind(reading);
        case ZYDIS_CATEGORY_INTERRUPT:
        case ZYDIS_CATEGORY_SYSCALL:
        case ZYDIS_CATEGORY_SYSRET:
        case ZYDIS_CATEGORY_SYSTEM:
        case ZYDIS_CATEGORY_IO:
        case ZYDIS_CATEGORY_IOSTRINGOP:
        case ZYDIS_CATEGORY_SEGOP:
                return X86_OTHER;
        default:
                break;
        }
        /* The flags that these move are not those of the original's run. */
        if (is->mnemonic == ZYDIS_MNEMONIC_PUSHFQ || is->mnemonic == ZYDIS_MNEMONIC_POPFQ ||
                is->mnemonic == ZYDIS_MNEMONIC_PUSHF || is->mnemonic == ZYDIS_MNEMONIC_POPF)
                return X86_OTHER;
        return X86_PLAIN;
}

struct x86_instruction x86_read(const unsigned char *at)
{
        static ZydisDecoder decoder;
        static bool ready;
        struct x86_instruction ret = {.kind = X86_OTHER, .stores = true, .anywhere = true};
        struct reading reading = {.at = at};
        const ZydisDecodedInstruction *is = &reading.is;

        if (!ready)
                ready = ZYAN_SUCCESS(ZydisDecoderInit(
                        &decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64));
        if (!ready || !ZYAN_SUCCESS(ZydisDecoderDecodeFull(
                              &decoder, at, X86_LEN_MAX, &reading.is, reading.operands)))
                return ret;
        ret.kind = kind_of(&reading, &ret.target);
        ret.len = is->length;
        ret.condition = is->opcode & 15;
        ret.stores = stores(&reading);
        ret.anywhere = is->address_width != 64;
        read_operands(&reading, &ret);
        if (is->attributes & ZYDIS_ATTRIB_HAS_REX)
                ret.rex = at[is->raw.rex.offset];
        if (is->attributes & ZYDIS_ATTRIB_HAS_MODRM) {
                ret.modrm_at = is->raw.modrm.offset;
                if (is->raw.modrm.mod == 0 && is->raw.modrm.rm == 5)
                        ret.disp_at = is->raw.disp.offset;
        }
        return ret;
}
