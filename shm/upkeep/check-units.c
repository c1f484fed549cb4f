/*
 * The validator's pass over units and blocks; see check-units.h. What looks wrong is looked at
 * three times: the first look may have met a block on its way from one sound state to the next.
 */

#include "shm/upkeep/check-units.h"

#include "shm/base/model.h"
#include "shm/base/word.h"
#include "shm/keys/ahead.h"
#include "shm/keys/branch.h"
#include "shm/keys/order.h"
#include "shm/keys/reach.h"
#include "shm/layout/block.h"
#include "shm/layout/record.h"
#include "shm/layout/report.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/memory/era.h"
#include "shm/memory/magazine.h"
#include "shm/memory/pin.h"
#include "shm/memory/unit.h"
#include "shm/mvcc/descriptor.h"

bool sb_look_is_unborn(const struct sb_look *look, const struct sb_word32 *birth)
{
        struct sb_superblock *super = look->segment->super;
        uint32_t word = sb_load_relaxed(birth); /* Relaxed: nothing changes it now. */

        /* A:sweep, A:era. */
        return look->quiescent && !(word & SB_BIRTH_LABEL) &&
               sb_era_from(sb_load_acquire(&super->birth_floor), word) >
                       sb_load_acquire(&super->era);
}

/* Whether the owner that a unit's word names is attached, or not reaped yet. */
static bool check_units_owner_lives(struct sb_look *look, uint64_t word)
{
        uint32_t slot = (uint32_t)(SB_UNIT_OWNER(word) >> 32) - 1, generation;
        enum sb_record_state state;

        if (slot >= look->segment->geometry.record_count)
                return false;
        state = sb_roster_state(look->segment, slot, &generation);
        /* A record that is being reaped still owns its units: the reaper is at them. */
        return generation == (uint32_t)word && state != SB_RECORD_FREE;
}

static bool check_units_owned(uint64_t word)
{
        return SB_UNIT_KIND(word) < SB_UNIT_PART && SB_UNIT_OWNER(word);
}

/* Whether an era that was loaded before is still to come: nothing names an era that was not yet. */
static bool check_units_era_ahead(struct sb_look *look, uint64_t era)
{
        return sb_load_acquire(&look->segment->super->era) < era; /* A:era. */
}

/* Whether a part has no head. Each of the two looks may have met its unit between two lives. */
static bool check_units_orphaned(struct sb_look *look, uint32_t unit, uint64_t word)
{
        uint32_t head = (uint32_t)word, tries;

        /* Bound: result. A look that is disturbed is repeated; what stays is reported. */
        for (tries = 0; tries < 3; tries++)
                /* A:unit-owned, both. The head comes before its parts and goes after them. */
                if (SB_UNIT_KIND(sb_load_acquire(&look->segment->unit_words[head])) ==
                                SB_UNIT_LARGE ||
                        sb_load_acquire(&look->segment->unit_words[unit]) != word)
                        return false;
        return true;
}

/* Whether a block is neither linked nor private to a live owner. */
static bool check_units_lost(
        struct sb_look *look, uint32_t unit, uint64_t at, enum sb_unit_kind kind)
{
        uint32_t tries;

        /* Bound: result. A look that is disturbed is repeated; what stays is reported. */
        for (tries = 0; tries < 3; tries++) {
                /* A:unit-owned. */
                uint64_t word = sb_load_acquire(&look->segment->unit_words[unit]);

                if ((check_units_owned(word) && check_units_owner_lives(look, word)) ||
                        !sb_unit_is_block(look->segment, at,
                                kind == SB_UNIT_LARGE ? SB_UNIT_VERSIONS : kind, NULL) ||
                        sb_reach_published_of_many(look->handle, at, kind, &look->reach))
                        return false;
        }
        return true;
}

/* Whether a block is in the hand of a client that has not noted it. */
static bool check_units_unnoted(
        struct sb_look *look, struct sb_block *block, uint64_t at, enum sb_unit_kind kind)
{
        uint32_t tries;

        /* Bound: result. A look that is disturbed is repeated; what stays is reported. */
        for (tries = 0; tries < 3; tries++) {
                uint32_t retire = sb_load_acquire(&block->retire); /* A:retire. */

                if (retire < SB_RETIRE_FREEING ||
                        sb_magazine_noted(look->segment, retire - SB_RETIRE_FREEING, at) ||
                        !sb_unit_is_block(look->segment, at,
                                kind == SB_UNIT_LARGE ? SB_UNIT_VERSIONS : kind, NULL))
                        return false;
        }
        return true;
}

/* Whether some client, alive or not reaped yet, is in a transaction. */
static bool check_units_any_noted(struct sb_look *look)
{
        uint32_t slot;

        /* A:operation. */
        for (slot = 0; slot < look->segment->geometry.record_count; slot++)
                if (sb_load_acquire(&sb_record_at(look->segment, slot)->operation) &
                        SB_OPERATION_DESCRIPTOR)
                        return true;
        return false;
}

/* Whether a version is held by a transaction that was aborted. (What an undecided transaction holds
 * is its own.) */
static bool check_units_held_aborted(const struct sb_version *version)
{
        /* A:retire, A:stamp. */
        return version && sb_load_acquire(&version->block.retire) == SB_RETIRE_HELD &&
               sb_load_acquire(&version->stamp) == SB_STAMP_ABORTED;
}

/* Each version that is held is in the list of a transaction that is not over for all. Both are
 * counted here, and compared when no other process is at work. */
static void check_units_count_held(struct sb_look *look, uint64_t at, uint32_t retire)
{
        uint32_t slot = retire - SB_RETIRE_FREEING, i;
        struct sb_descriptor_lists lists;
        struct sb_descriptor *descriptor;

        /* What is in a client's magazine is neither. A:freeing. */
        if (!look->quiescent ||
                (retire >= SB_RETIRE_FREEING &&
                        (slot >= look->segment->geometry.record_count ||
                                sb_load_acquire(&sb_record_at(look->segment, slot)->freeing) !=
                                        at)))
                return;
        look->held += check_units_held_aborted(sb_version_at(look->segment, at));
        descriptor = retire >= SB_RETIRE_DYING ? sb_descriptor_at(look->segment, at) : NULL;
        /* A:status. What a committed one lists may belong to others by now. */
        if (!descriptor || !sb_descriptor_read(look->segment, descriptor, &lists) ||
                SB_STATUS_STATE(sb_load_acquire(&descriptor->status)) != SB_STATUS_ABORTED)
                return;
        for (i = 0; i < lists.write_count; i++)
                look->listed +=
                        check_units_held_aborted(sb_version_at(look->segment, lists.write[i]));
}

/* What is wrong with a slot. *symbols: a bit for each symbol that others have. */
static const char *check_units_slot(
        struct sb_look *look, const struct sb_branch_view *view, uint32_t index, uint32_t *symbols)
{
        uint64_t word = sb_pin_load(look->handle, &view->branch->slot[index]), shape;
        uint32_t symbol = SB_SLOT_SYMBOL(word);
        struct sb_branch_view below;
        const struct sb_node *node;

        if (!symbol)
                return word & ~SB_SLOT_FROZEN ? "a slot without a symbol is not free" : NULL;
        if (symbol > SB_BRANCH_SYMBOLS || (*symbols >> symbol & 1))
                return "two slots have one symbol, or one has none that there is";
        if (view->slots == SB_BRANCH_SYMBOLS && symbol != index + 1)
                return "a slot has another one's symbol";
        *symbols |= UINT32_C(1) << symbol;
        if (!(word & SB_OFFSET_MASK))
                return index == view->anchor ? "its anchor is empty" : NULL;
        node = sb_node_at(look->segment, word & SB_OFFSET_MASK);
        if (!node || !sb_unit_is_block(look->segment, word & SB_OFFSET_MASK, SB_UNIT_NODES, NULL))
                return "a slot leads to no block";
        shape = sb_pin_load(look->handle, &node->cell);
        if (word & SB_SLOT_LEAF)
                return SB_BRANCH_IS(shape) ? "a leaf is a branch" : NULL;
        return sb_branch_view(look->segment, word, view->depth + 1, &below)
                       ? NULL
                       : "a slot leads to no deeper branch";
}

/* What is wrong with a branch to which the index leads, or led a moment ago; NULL: nothing. Under
 * the pin under which it was found. */
static const char *check_units_slots(struct sb_look *look, struct sb_branch *branch)
{
        uint64_t at = sb_offset_of(look->segment, branch), size;
        struct sb_branch_view view;
        uint32_t symbols = 0, i;
        const char *fault = NULL;

        if (!sb_branch_view(look->segment, at, 0, &view) ||
                !sb_unit_is_block(look->segment, at, SB_UNIT_NODES, &size) ||
                sb_branch_size(view.slots) > size)
                return "its shape is wrong";
        for (i = 0; i < view.slots && !fault; i++)
                fault = check_units_slot(look, &view, i, &symbols);
        return fault;
}

/* Whether a block in a slab of nodes, which may be freed just now, is a branch that is linked: then
 * the pin keeps it. */
static bool check_units_is_branch(struct sb_look *look, struct sb_block *block)
{
        bool linked;

        sb_model_unchecked_begin();
        /* A:publish. */
        linked = SB_BRANCH_IS(sb_load_acquire(&((const struct sb_node *)block)->cell)) &&
                 sb_order_reaches(look->handle, (struct sb_branch *)block);
        sb_model_unchecked_end();
        return linked;
}

static void check_units_branch(struct sb_look *look, struct sb_block *block, uint64_t at)
{
        uint32_t retire = sb_load_acquire(&block->retire); /* A:retire. Before the look. */
        const char *fault;

        if (!check_units_is_branch(look, block))
                return;
        look->report->branches += !retire;
        /* Or it is in a client's hand, which comes behind the date. */
        fault = retire >= SB_ERA_MIN ? "it is linked and dated"
                                     : check_units_slots(look, (struct sb_branch *)block);
        /* One that was replaced meanwhile says nothing; nor does a date from before the pin: the
         * block may be another branch by now. A:retire. */
        if (fault && check_units_is_branch(look, block) &&
                sb_load_acquire(&block->retire) == retire)
                sb_report_problem(look->report, "ordered index, branch at offset %llu: %s",
                        (unsigned long long)at, fault);
}

static void check_units_block(
        struct sb_look *look, uint32_t unit, uint64_t word, uint64_t at, uint64_t size)
{
        struct sb_check_report *report = look->report;
        struct sb_block *block = sb_block_at(look->segment, at);
        enum sb_unit_kind kind = SB_UNIT_KIND(word);
        uint32_t retire = sb_load_acquire(&block->retire); /* A:retire. */

        report->blocks_used++;
        report->bytes_used += size;
        if (kind == SB_UNIT_VERSIONS || kind == SB_UNIT_LARGE)
                check_units_count_held(look, at, retire);
        if (retire >= SB_RETIRE_FREEING && check_units_unnoted(look, block, at, kind)) {
                report->blocks_lost++;
                sb_report_problem(look->report,
                        "unit %u: the block at offset %llu is in hand, and no client has noted it",
                        unit, (unsigned long long)at);
        } else if (sb_reach_published_of_many(look->handle, at, kind, &look->reach)) {
                /* A:retire. */
                report->blocks_waiting +=
                        kind != SB_UNIT_GUARDS && sb_load_acquire(&block->retire) != 0;
                if (kind == SB_UNIT_NODES)
                        check_units_branch(look, block, at);
        } else if (check_units_lost(look, unit, at, kind)) {
                report->blocks_lost++;
                sb_report_problem(look->report, "unit %u: the block at offset %llu is lost", unit,
                        (unsigned long long)at);
        } else {
                report->blocks_private++;
        }
}

/* Whether bits are set where no block can be, and not because a client took the unit and gave it
 * back in between. */
static bool check_units_stray_bits(
        struct sb_look *look, uint32_t unit, uint32_t index, uint64_t word, uint64_t valid)
{
        uint32_t tries;

        /* Bound: result. A look that is disturbed is repeated; what stays is reported. */
        for (tries = 0; tries < 3; tries++)
                /* A:block-taken, A:unit-owned. */
                if (!(sb_load_acquire(&sb_unit_bitmap(look->segment, unit)[index]) & ~valid) ||
                        sb_load_acquire(&look->segment->unit_words[unit]) != word)
                        return false;
        return true;
}

static void check_units_bits(struct sb_look *look, uint32_t unit, uint64_t word)
{
        struct sb_segment *segment = look->segment;
        enum sb_unit_kind kind = SB_UNIT_KIND(word);
        bool vacant = kind == SB_UNIT_FREE || kind >= SB_UNIT_PART;
        uint32_t count = vacant ? 0 : sb_unit_block_count(segment, word), base;
        uint64_t size = kind == SB_UNIT_LARGE ? (uint64_t)sb_unit_large_count(segment, unit)
                                                        << segment->unit_shift
                        : vacant ? segment->geometry.unit_size
                                 : segment->class_size[SB_UNIT_CLASS(word)];

        for (base = 0; base / 64 < segment->geometry.bitmap_stride / 8; base += 64) {
                uint64_t valid = base >= count        ? 0
                                 : count - base >= 64 ? UINT64_MAX
                                                      : (UINT64_C(1) << (count - base)) - 1;
                uint64_t bits, now;

                sb_pin(look->handle);
                do {
                        /* A:block-taken. */
                        bits = sb_load_acquire(&sb_unit_bitmap(segment, unit)[base / 64]);
                        /* A:unit-owned. */
                        now = sb_load_acquire(&segment->unit_words[unit]);
                        /* As in a sweep: from here on it keeps its kind as long as the pin is
                         * there. */
                } while (!sb_pin_covers(look->handle));
                if (now != word)
                        bits = 0; /* it changed hands: its new owner is at work */
                if ((bits & ~valid) && check_units_stray_bits(look, unit, base / 64, word, valid))
                        sb_report_problem(
                                look->report, "unit %u: bits are set where no block is", unit);
                bits &= valid;
                if (kind == SB_UNIT_VERSIONS)
                        sb_ahead_versions(segment,
                                segment->base + sb_unit_offset(segment, unit) + base * size, size,
                                bits);
                for (; bits; bits &= bits - 1)
                        check_units_block(look, unit, word,
                                sb_unit_offset(segment, unit) +
                                        (base + (uint32_t)__builtin_ctzll(bits)) * size,
                                size);
                sb_unpin(look->handle);
        }
}

void sb_look_at_units(struct sb_look *look, uint32_t first, uint32_t end)
{
        struct sb_segment *segment = look->segment;
        struct sb_check_report *report = look->report;
        uint32_t unit;

        sb_reach_begin(look->handle, &look->reach);
        for (unit = first; unit < end; unit++) {
                uint64_t word = sb_load_acquire(&segment->unit_words[unit]); /* A:unit-owned. */
                enum sb_unit_kind kind = SB_UNIT_KIND(word);
                uint64_t used = report->bytes_used;

                if (kind > SB_UNIT_EMPTY ||
                        (kind && kind < SB_UNIT_LARGE &&
                                SB_UNIT_CLASS(word) >= segment->class_count) ||
                        (kind == SB_UNIT_PART && ((uint32_t)word >= unit ||
                                                         check_units_orphaned(look, unit, word))) ||
                        (kind == SB_UNIT_EMPTY && check_units_era_ahead(look, SB_UNIT_ERA(word)))) {
                        sb_report_problem(look->report, "unit %u: its word %llx makes no sense",
                                unit, (unsigned long long)word);
                        continue;
                }
                /* A:unit-owned. */
                if (check_units_owned(word) && !check_units_owner_lives(look, word) &&
                        sb_load_acquire(&segment->unit_words[unit]) == word && look->quiescent)
                        sb_report_problem(
                                look->report, "unit %u belongs to a client that is gone", unit);
                if (kind != SB_UNIT_FREE && kind != SB_UNIT_PART &&
                        sb_look_is_unborn(look, &segment->unit_births[unit]))
                        sb_report_problem(look->report, "unit %u was born in an era to come", unit);
                check_units_bits(look, unit, word);
                report->units_unhinted += look->quiescent && !sb_unit_is_hinted(segment, unit);
                if (kind == SB_UNIT_FREE || kind == SB_UNIT_EMPTY)
                        report->units_free++;
                else
                        report->units_used++;
                if (kind != SB_UNIT_PART && kind != SB_UNIT_LARGE)
                        report->bytes_free +=
                                segment->geometry.unit_size - (report->bytes_used - used);
        }
        if (!report->problem_count && look->quiescent && look->held != look->listed &&
                !check_units_any_noted(look))
                sb_report_problem(look->report, "%llu versions are held, transactions list %llu",
                        (unsigned long long)look->held, (unsigned long long)look->listed);
}
